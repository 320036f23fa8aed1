SELECT holder, id FROM executions WHERE partition = ?1 AND holder IS NOT NULL ORDER BY holder, id
