SELECT id FROM commits WHERE partition = ?1 AND number = ?2
