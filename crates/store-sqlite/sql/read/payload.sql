SELECT content_type, bytes FROM payloads WHERE execution = ?1 AND slot = ?2
