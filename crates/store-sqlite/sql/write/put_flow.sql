INSERT INTO flows (id, partition, namespace, kind, created_at, state, revision, changed_at, remove_at, spec, live)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision,
       changed_at = excluded.changed_at, remove_at = excluded.remove_at, live = excluded.live
