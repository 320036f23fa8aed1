SELECT number, executions, others FROM commits WHERE partition = ?1 AND number > ?2 ORDER BY number LIMIT ?3
