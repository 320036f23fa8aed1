DELETE FROM signals WHERE execution = ?1
