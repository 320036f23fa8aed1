SELECT record FROM workers WHERE partition = ?1 ORDER BY instance
