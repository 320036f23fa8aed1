INSERT INTO ready_counts (partition, lane, class, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET n = n + excluded.n
