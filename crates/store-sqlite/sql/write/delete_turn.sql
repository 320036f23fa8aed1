DELETE FROM turns WHERE partition = ?1
