DELETE FROM attempts WHERE execution = ?1
