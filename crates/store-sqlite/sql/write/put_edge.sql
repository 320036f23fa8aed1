INSERT INTO edges (upstream, downstream, partition, flow, number, condition, field, counted, needed, passes, created_at,
       created_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (upstream, downstream) DO UPDATE SET counted = excluded.counted, needed = excluded.needed,
       passes = excluded.passes
