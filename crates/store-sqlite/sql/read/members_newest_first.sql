SELECT id, namespace, lane, kind, state, reason, created_at, spec, live
  FROM executions INDEXED BY executions_of_flow WHERE flow = ?2 AND id < ?1 ORDER BY id DESC
