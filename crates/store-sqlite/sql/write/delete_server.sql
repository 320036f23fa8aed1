DELETE FROM servers WHERE name = ?1
