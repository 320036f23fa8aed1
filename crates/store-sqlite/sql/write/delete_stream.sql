DELETE FROM streams WHERE execution = ?1
