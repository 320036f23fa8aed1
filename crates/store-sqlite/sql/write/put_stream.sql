INSERT INTO streams (execution, partition, attempt, next, first, summary_version, summary, durable_at, best_effort_at, trim_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (execution) DO UPDATE SET attempt = excluded.attempt, next = excluded.next, first = excluded.first,
       summary_version = excluded.summary_version, summary = excluded.summary, durable_at = excluded.durable_at,
       best_effort_at = excluded.best_effort_at, trim_at = excluded.trim_at
