INSERT INTO waitpoints (execution, number, partition, namespace, lane, kind, name, reason, opened_at, expires_at, digest)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
