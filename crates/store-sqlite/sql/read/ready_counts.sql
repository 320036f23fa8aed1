SELECT lane, class, n FROM ready_counts WHERE partition = ?1 AND n > 0 ORDER BY lane, class
