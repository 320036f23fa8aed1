SELECT id, secret, created_at, retires_at, revision FROM signing_keys WHERE partition = ?1 AND id = ?2
