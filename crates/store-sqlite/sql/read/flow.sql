SELECT partition, spec, live FROM flows WHERE id = ?1
