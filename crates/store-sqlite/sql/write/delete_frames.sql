DELETE FROM frames WHERE execution = ?1
