SELECT partition, spec, live FROM executions WHERE id = ?1
