INSERT INTO parcels (receiver, at, body) VALUES (?1, ?2, ?3)
