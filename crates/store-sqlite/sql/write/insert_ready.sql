INSERT INTO ready (partition, lane, class, rank, number, execution) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
