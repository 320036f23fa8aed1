DELETE FROM payloads WHERE execution = ?1
