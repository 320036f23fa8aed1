DELETE FROM waitpoints WHERE execution = ?1 AND number = ?2
