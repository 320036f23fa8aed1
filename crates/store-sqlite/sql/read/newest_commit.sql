SELECT number, id, next_event, sweep_at, now FROM commits WHERE partition = ?1 ORDER BY number DESC LIMIT 1
