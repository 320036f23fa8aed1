SELECT partition, attempt, next, first, summary_version, summary, durable_at, best_effort_at, trim_at
  FROM streams WHERE execution = ?1
