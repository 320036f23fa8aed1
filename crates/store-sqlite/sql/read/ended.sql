SELECT remove_at, execution FROM ended
 WHERE partition = ?1 AND remove_at <= ?2 ORDER BY remove_at, execution LIMIT ?3
