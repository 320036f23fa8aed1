SELECT namespace, key, execution, expires_at FROM dedup
 WHERE partition = ?1 AND expires_at <= ?2 ORDER BY expires_at, namespace, key LIMIT ?3
