SELECT record FROM lanes WHERE partition = ?1 ORDER BY name
