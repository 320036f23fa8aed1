SELECT edges.upstream, edges.downstream, edges.flow, edges.number, edges.condition, edges.field, edges.counted,
       edges.needed, edges.passes, edges.created_at, edges.created_by, executions.spec, executions.live
  FROM edges LEFT JOIN executions ON executions.id = edges.downstream
 WHERE edges.upstream = ?1 AND edges.number > ?2 AND edges.partition = ?4 ORDER BY edges.number LIMIT ?3
