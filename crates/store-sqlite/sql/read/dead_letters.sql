SELECT number, id, posted_at, kind, input, content_type, namespace, lane, key, options, reason, at
  FROM dead_letters WHERE partition = ?1 AND number > ?2 ORDER BY number LIMIT ?3
