INSERT INTO commits (partition, number, id, previous_id, at_ms, next_event, sweep_at, now, executions, others)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
