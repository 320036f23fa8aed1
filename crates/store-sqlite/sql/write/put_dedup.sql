INSERT INTO dedup (partition, namespace, key, execution, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET execution = excluded.execution, expires_at = excluded.expires_at
