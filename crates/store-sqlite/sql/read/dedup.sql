SELECT execution, expires_at FROM dedup WHERE partition = ?1 AND namespace = ?2 AND key = ?3
