SELECT first, last, at, body FROM events WHERE partition = ?1 AND first >= ?2 ORDER BY first LIMIT 1
