DELETE FROM frames WHERE execution = ?1 AND attempt = ?2 AND number < ?3
