INSERT OR REPLACE INTO dead_letters
SELECT number, partition, id, posted_at, kind, input, content_type, namespace, lane, key, options, ?3, ?4
  FROM inbox WHERE number = ?1 AND partition = ?2
