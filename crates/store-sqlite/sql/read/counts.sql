SELECT namespace, lane, kind, state, sum(n) FROM counts
 GROUP BY namespace, lane, kind, state HAVING sum(n) > 0
 ORDER BY namespace, lane, kind, state
