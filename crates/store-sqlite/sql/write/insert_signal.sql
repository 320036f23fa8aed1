INSERT INTO signals (execution, number, at, name, waitpoint, source, correlation, content_type, bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
