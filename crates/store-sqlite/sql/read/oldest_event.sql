SELECT min(first) FROM events WHERE partition = ?1
