SELECT 'signals' AS what, execution FROM signals AS t
 WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'steps', execution FROM steps AS t
 WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'stream', execution FROM streams AS t
 WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'frames', execution FROM frames AS t
 WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = t.execution) GROUP BY execution
 ORDER BY what, execution LIMIT ?1
