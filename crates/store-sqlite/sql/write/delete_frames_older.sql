DELETE FROM frames WHERE execution = ?1 AND mode = ?2 AND at < ?3
