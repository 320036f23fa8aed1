INSERT INTO events (partition, first, last, at, body) VALUES (?1, ?2, ?3, ?4, ?5)
