DELETE FROM signing_keys WHERE partition = ?1 AND id = ?2
