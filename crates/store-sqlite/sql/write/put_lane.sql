INSERT INTO lanes (partition, name, mode, record) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET mode = excluded.mode, record = excluded.record
