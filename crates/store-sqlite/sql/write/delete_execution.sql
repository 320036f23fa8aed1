DELETE FROM executions WHERE id = ?1
