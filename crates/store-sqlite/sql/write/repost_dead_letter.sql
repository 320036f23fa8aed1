INSERT INTO inbox (number, partition, id, posted_at, kind, input, content_type, namespace, lane, key, options)
SELECT number, partition, id, posted_at, kind, input, content_type, namespace, lane, key, options
  FROM dead_letters WHERE number = ?1 AND partition = ?2
