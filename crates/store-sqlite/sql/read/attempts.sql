SELECT record FROM attempts WHERE execution = ?1 ORDER BY number
