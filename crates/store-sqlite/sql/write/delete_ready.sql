DELETE FROM ready WHERE partition = ?1 AND lane = ?2 AND class = ?3 AND rank = ?4 AND number = ?5
