SELECT first, last, body FROM events
 WHERE partition = ?1
   AND first >= coalesce((SELECT max(first) FROM events WHERE partition = ?1 AND first <= ?2), 0)
 ORDER BY first
