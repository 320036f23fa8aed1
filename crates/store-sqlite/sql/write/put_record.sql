INSERT INTO registry (partition, kind, id, body) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (partition, kind, id) DO UPDATE SET body = excluded.body
