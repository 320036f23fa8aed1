DELETE FROM flows WHERE id = ?1
