INSERT INTO inbox (partition, id, posted_at, kind, input, content_type, namespace, lane, key, options)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
