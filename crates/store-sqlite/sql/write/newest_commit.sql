SELECT number, id FROM commits WHERE partition = ?1 ORDER BY number DESC LIMIT 1
