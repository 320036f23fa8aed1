DELETE FROM inbox WHERE number = ?1 AND partition = ?2
