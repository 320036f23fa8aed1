DELETE FROM dead_letters WHERE number = ?1 AND partition = ?2
