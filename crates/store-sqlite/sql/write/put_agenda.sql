INSERT INTO agenda (partition, due, kind, subject, message) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET message = excluded.message
