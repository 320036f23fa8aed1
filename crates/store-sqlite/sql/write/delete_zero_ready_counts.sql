DELETE FROM ready_counts WHERE partition = ?1 AND n = 0
