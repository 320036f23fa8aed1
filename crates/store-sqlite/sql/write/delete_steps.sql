DELETE FROM steps WHERE execution = ?1
