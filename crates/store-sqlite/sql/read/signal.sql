SELECT at, name, waitpoint, source, correlation, content_type, bytes FROM signals WHERE execution = ?1 AND number = ?2
