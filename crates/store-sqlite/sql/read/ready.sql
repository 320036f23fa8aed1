SELECT ready.rank, ready.number, ready.execution, executions.spec, executions.live
  FROM ready LEFT JOIN executions ON executions.id = ready.execution
 WHERE ready.partition = ?1 AND ready.lane = ?2 AND ready.class = ?3 AND (ready.rank, ready.number) > (?4, ?5)
 ORDER BY ready.rank, ready.number LIMIT ?6
