DELETE FROM events WHERE partition = ?1 AND first < ?2
