SELECT rowid, last, at, body FROM events WHERE partition = ?1 AND first < ?2 AND last >= ?2
 ORDER BY first DESC LIMIT 1
