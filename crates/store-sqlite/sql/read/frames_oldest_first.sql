SELECT number, at, kind, mode, bytes FROM frames
 WHERE execution = ?1 AND attempt = ?2 AND number > ?3 ORDER BY number
