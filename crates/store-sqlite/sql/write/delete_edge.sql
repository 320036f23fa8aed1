DELETE FROM edges WHERE upstream = ?1 AND downstream = ?2
