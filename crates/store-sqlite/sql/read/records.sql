SELECT body FROM registry WHERE partition = ?1 AND kind = ?2 ORDER BY id
