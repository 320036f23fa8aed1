SELECT record FROM lanes WHERE partition = ?1 AND name = ?2
