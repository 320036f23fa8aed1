INSERT INTO workers (partition, instance, name, mode, record) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET name = excluded.name, mode = excluded.mode, record = excluded.record
