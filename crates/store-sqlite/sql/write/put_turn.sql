INSERT INTO turns (partition, server, until) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET server = excluded.server, until = excluded.until
