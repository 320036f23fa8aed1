INSERT INTO steps (execution, name, occurrence, number, kind, attempt, started_at, ended_at, content_type, bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (execution, name, occurrence) DO UPDATE SET number = excluded.number, kind = excluded.kind,
       attempt = excluded.attempt, started_at = excluded.started_at, ended_at = excluded.ended_at,
       content_type = excluded.content_type, bytes = excluded.bytes
