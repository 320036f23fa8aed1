SELECT name, occurrence, number, kind, attempt, started_at, ended_at, content_type, bytes
  FROM steps WHERE execution = ?1
