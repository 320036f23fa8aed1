SELECT 'signals' AS what, execution FROM flowfabric.signals AS t
 WHERE NOT EXISTS (SELECT 1 FROM flowfabric.executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'steps', execution FROM flowfabric.steps AS t
 WHERE NOT EXISTS (SELECT 1 FROM flowfabric.executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'stream', execution FROM flowfabric.streams AS t
 WHERE NOT EXISTS (SELECT 1 FROM flowfabric.executions AS e WHERE e.id = t.execution) GROUP BY execution
 UNION ALL
SELECT 'frames', execution FROM flowfabric.frames AS t
 WHERE NOT EXISTS (SELECT 1 FROM flowfabric.executions AS e WHERE e.id = t.execution) GROUP BY execution
 ORDER BY what, execution LIMIT $1
