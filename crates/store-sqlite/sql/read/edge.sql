SELECT upstream, downstream, flow, number, condition, field, counted, needed, passes, created_at, created_by
  FROM edges WHERE upstream = ?1 AND downstream = ?2 AND partition = ?3
