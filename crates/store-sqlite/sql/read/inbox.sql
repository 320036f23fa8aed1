SELECT number, id, posted_at, kind, input, content_type, namespace, lane, key, options
  FROM inbox WHERE partition = ?1 ORDER BY number LIMIT ?2
