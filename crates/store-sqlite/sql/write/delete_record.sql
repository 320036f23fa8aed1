DELETE FROM registry WHERE partition = ?1 AND kind = ?2 AND id = ?3
