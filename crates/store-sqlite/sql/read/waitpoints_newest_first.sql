SELECT execution, number, namespace, lane, kind, name, reason, opened_at, expires_at, digest FROM waitpoints
 WHERE (execution, number) < (?1, ?2) ORDER BY execution DESC, number DESC
