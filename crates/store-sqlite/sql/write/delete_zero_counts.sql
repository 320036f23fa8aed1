DELETE FROM counts WHERE partition = ?1 AND n = 0
