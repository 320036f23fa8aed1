SELECT member, id, spec, live FROM executions
 WHERE flow = ?1 AND member > ?2 AND partition = ?4 ORDER BY member LIMIT ?3
