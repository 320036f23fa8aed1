INSERT INTO payloads (execution, slot, content_type, bytes) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET content_type = excluded.content_type, bytes = excluded.bytes
