SELECT id, secret, created_at, retires_at, revision FROM signing_keys WHERE partition = ?1 ORDER BY id
