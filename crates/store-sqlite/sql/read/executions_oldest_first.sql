SELECT id, namespace, lane, kind, state, reason, created_at, spec, live
  FROM executions WHERE id > ?1 ORDER BY id
