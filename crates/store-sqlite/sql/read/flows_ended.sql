SELECT remove_at, id FROM flows
 WHERE partition = ?1 AND remove_at <= ?2 ORDER BY remove_at, id LIMIT ?3
