CREATE FUNCTION steps_1(p_executions uuid[])
RETURNS TABLE (execution uuid, name text, occurrence bigint, number bigint, kind text, attempt bigint,
               started_at bigint, ended_at bigint, content_type text, bytes bytea)
LANGUAGE plpgsql STABLE
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.execution, s.name, s.occurrence, s.number, s.kind, s.attempt, s.started_at, s.ended_at, s.content_type,
           s.bytes
      FROM unnest(p_executions) WITH ORDINALITY AS u(execution, place),
           LATERAL (SELECT x.* FROM steps AS x WHERE x.execution = u.execution OFFSET 0) AS s
     ORDER BY u.place, s.number, s.name, s.occurrence;
END
$$;

CREATE FUNCTION signals_1(p_executions uuid[], p_numbers bigint[])
RETURNS TABLE (place bigint, at bigint, name text, waitpoint bigint, source text, correlation text, content_type text,
               bytes bytea)
LANGUAGE plpgsql STABLE
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.place, s.at, s.name, s.waitpoint, s.source, s.correlation, s.content_type, s.bytes
      FROM unnest(p_executions, p_numbers) WITH ORDINALITY AS u(execution, number, place),
           LATERAL (SELECT x.* FROM signals AS x
                     WHERE x.execution = u.execution AND x.number = u.number LIMIT 1) AS s;
END
$$;

-- Frames of one attempt up to the one with which they have so many bytes together, and at least one. Without a
-- place to start after they start at the end.
CREATE FUNCTION frames_1(
    p_execution uuid, p_attempt bigint, p_after bigint, p_newest_first boolean, p_limit bigint, p_bytes bigint)
RETURNS TABLE (number bigint, at bigint, kind text, mode text, bytes bytea)
LANGUAGE plpgsql STABLE
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF p_newest_first THEN
        RETURN QUERY
        SELECT f.number, f.at, f.kind, f.mode, f.bytes
          FROM (SELECT x.*, row_number() OVER w AS place,
                       sum(octet_length(x.bytes)) OVER w - octet_length(x.bytes) AS before
                  FROM (SELECT y.* FROM frames AS y
                         WHERE y.execution = p_execution AND y.attempt = p_attempt AND y.number < p_after
                         ORDER BY y.execution DESC, y.attempt DESC, y.number DESC LIMIT p_limit) AS x
                WINDOW w AS (ORDER BY x.number DESC)) AS f
         WHERE f.place = 1 OR f.before < p_bytes
         ORDER BY f.number DESC;
    ELSE
        RETURN QUERY
        SELECT f.number, f.at, f.kind, f.mode, f.bytes
          FROM (SELECT x.*, row_number() OVER w AS place,
                       sum(octet_length(x.bytes)) OVER w - octet_length(x.bytes) AS before
                  FROM (SELECT y.* FROM frames AS y
                         WHERE y.execution = p_execution AND y.attempt = p_attempt AND y.number > p_after
                         ORDER BY y.execution, y.attempt, y.number LIMIT p_limit) AS x
                WINDOW w AS (ORDER BY x.number)) AS f
         WHERE f.place = 1 OR f.before < p_bytes
         ORDER BY f.number;
    END IF;
END
$$;

-- A stretch of open waitpoints in the order of their ids, of all executions or of one. Each tells whether
-- it fits the rest of what is asked for.
CREATE FUNCTION waitpoints_1(
    p_after uuid, p_number bigint, p_newest_first boolean, p_limit bigint, p_execution uuid, p_namespace text,
    p_lane text, p_kind text, p_name text, p_reason text)
RETURNS TABLE (execution uuid, number bigint, fits boolean, namespace text, lane text, kind text, name text,
               reason text, opened_at bigint, expires_at bigint, digest bytea)
LANGUAGE plpgsql STABLE
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_first uuid := coalesce(p_execution, '00000000-0000-0000-0000-000000000000');
    v_last uuid := coalesce(p_execution, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
BEGIN
    IF p_newest_first THEN
        RETURN QUERY
        SELECT x.execution, x.number,
               (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_lane IS NULL OR x.lane = p_lane)
               AND (p_kind IS NULL OR x.kind = p_kind) AND (p_name IS NULL OR x.name IS NOT DISTINCT FROM p_name)
               AND (p_reason IS NULL OR x.reason IS NOT DISTINCT FROM p_reason),
               x.namespace, x.lane, x.kind, x.name, x.reason, x.opened_at, x.expires_at, x.digest
          FROM waitpoints AS x
         WHERE x.execution BETWEEN v_first AND v_last AND (x.execution, x.number) < (coalesce(p_after, v_last), coalesce(p_number, 9223372036854775807))
         ORDER BY x.execution DESC, x.number DESC LIMIT p_limit;
    ELSE
        RETURN QUERY
        SELECT x.execution, x.number,
               (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_lane IS NULL OR x.lane = p_lane)
               AND (p_kind IS NULL OR x.kind = p_kind) AND (p_name IS NULL OR x.name IS NOT DISTINCT FROM p_name)
               AND (p_reason IS NULL OR x.reason IS NOT DISTINCT FROM p_reason),
               x.namespace, x.lane, x.kind, x.name, x.reason, x.opened_at, x.expires_at, x.digest
          FROM waitpoints AS x
         WHERE x.execution BETWEEN v_first AND v_last AND (x.execution, x.number) > (coalesce(p_after, v_first), coalesce(p_number, -1))
         ORDER BY x.execution, x.number LIMIT p_limit;
    END IF;
END
$$;
