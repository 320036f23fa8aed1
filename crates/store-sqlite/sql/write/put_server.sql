INSERT INTO servers (name, entered_at) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET entered_at = excluded.entered_at
