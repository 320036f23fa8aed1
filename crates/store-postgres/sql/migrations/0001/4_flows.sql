-- A stretch of flows in the order of their ids. What the columns rule out comes without its content.
CREATE FUNCTION flows_1(
    p_after uuid, p_newest_first boolean, p_limit bigint, p_namespace text, p_kind text, p_states text[],
    p_created_from bigint, p_created_before bigint)
RETURNS TABLE (id uuid, spec text, live text)
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
        SELECT f.id, CASE WHEN f.fits THEN f.spec END, CASE WHEN f.fits THEN f.live END
          FROM (SELECT x.id, x.spec, x.live,
                       (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_kind IS NULL OR x.kind = p_kind)
                       AND (p_states IS NULL OR x.state = ANY (p_states))
                       AND (p_created_from IS NULL OR x.created_at >= p_created_from)
                       AND (p_created_before IS NULL OR x.created_at < p_created_before) AS fits
                  FROM flows AS x WHERE x.id < coalesce(p_after, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                 ORDER BY x.id DESC LIMIT p_limit) AS f;
    ELSE
        RETURN QUERY
        SELECT f.id, CASE WHEN f.fits THEN f.spec END, CASE WHEN f.fits THEN f.live END
          FROM (SELECT x.id, x.spec, x.live,
                       (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_kind IS NULL OR x.kind = p_kind)
                       AND (p_states IS NULL OR x.state = ANY (p_states))
                       AND (p_created_from IS NULL OR x.created_at >= p_created_from)
                       AND (p_created_before IS NULL OR x.created_at < p_created_before) AS fits
                  FROM flows AS x WHERE x.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
                 ORDER BY x.id LIMIT p_limit) AS f;
    END IF;
END
$$;

-- A stretch of the members of a flow in the order of their ids. They are found by their flow, not by walking
-- through everything that has an id.
CREATE FUNCTION members_1(p_flow uuid, p_after uuid, p_newest_first boolean, p_limit bigint)
RETURNS TABLE (id uuid, spec text, live text)
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
        SELECT e.id, e.spec, e.live
          FROM (SELECT x.id, x.spec, x.live FROM executions AS x WHERE x.flow = p_flow OFFSET 0) AS e
         WHERE e.id < coalesce(p_after, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
         ORDER BY e.id DESC LIMIT p_limit;
    ELSE
        RETURN QUERY
        SELECT e.id, e.spec, e.live
          FROM (SELECT x.id, x.spec, x.live FROM executions AS x WHERE x.flow = p_flow OFFSET 0) AS e
         WHERE e.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
         ORDER BY e.id LIMIT p_limit;
    END IF;
END
$$;
