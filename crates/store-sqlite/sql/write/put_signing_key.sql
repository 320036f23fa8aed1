INSERT INTO signing_keys (partition, id, secret, created_at, retires_at, revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (partition, id) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at,
       retires_at = excluded.retires_at, revision = excluded.revision
