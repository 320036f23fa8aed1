-- The highest id of all executions. Called in one statement with load_1, so that it is told at the same version.
CREATE FUNCTION newest_execution_1() RETURNS uuid
LANGUAGE sql STABLE
SET search_path = flowfabric, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    SELECT id FROM executions ORDER BY id DESC LIMIT 1
$$;
