INSERT INTO counts (partition, namespace, lane, kind, state, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET n = n + excluded.n
