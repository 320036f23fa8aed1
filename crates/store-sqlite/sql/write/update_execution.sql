UPDATE executions SET state = ?2, reason = ?3, changed_at = ?4, holder = ?5, live = ?6 WHERE id = ?1
