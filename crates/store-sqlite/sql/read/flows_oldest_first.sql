SELECT id, namespace, kind, state, created_at, spec, live FROM flows WHERE id > ?1 ORDER BY id
