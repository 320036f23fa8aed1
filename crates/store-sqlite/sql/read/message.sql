SELECT message FROM agenda WHERE partition = ?1 AND due = ?2 AND kind = ?3 AND subject = ?4
