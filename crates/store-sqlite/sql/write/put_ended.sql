INSERT INTO ended (partition, remove_at, execution) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
