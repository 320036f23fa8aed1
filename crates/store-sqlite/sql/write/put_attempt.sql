INSERT INTO attempts (execution, number, record) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET record = excluded.record
