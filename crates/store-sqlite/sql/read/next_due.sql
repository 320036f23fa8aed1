SELECT min(due) FROM agenda WHERE partition = ?1
