DELETE FROM workers WHERE partition = ?1 AND instance = ?2
