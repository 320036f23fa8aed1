-- Where the partitions stand that are not where the caller thinks, and which have posted submissions.
-- `p_known` has one number for each partition. The first row is the time.
CREATE FUNCTION status_1(p_known bigint[])
RETURNS TABLE (tag text, partition integer, id uuid, number bigint, next_event bigint, next_due bigint,
               lane text, class text)
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
    v_changed integer[];
BEGIN
    RETURN QUERY SELECT 'now', NULL::integer, NULL::uuid, clock_ms(), NULL::bigint, NULL::bigint, NULL, NULL;
    RETURN QUERY
    SELECT 'posted', p.partition, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL
      FROM generate_series(0, cardinality(p_known) - 1) AS p(partition)
     WHERE EXISTS (SELECT FROM inbox AS x WHERE x.partition = p.partition);
    SELECT array_agg(p.partition) INTO v_changed
      FROM generate_series(0, cardinality(p_known) - 1) AS p(partition)
     WHERE p_known[p.partition + 1] IS DISTINCT FROM
           (SELECT c.number FROM commits AS c WHERE c.partition = p.partition ORDER BY c.number DESC LIMIT 1);
    IF v_changed IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'head', p.partition, c.id, c.number, c.next_event, c.next_due, NULL, NULL
      FROM unnest(v_changed) AS p(partition)
           LEFT JOIN LATERAL (SELECT c.id, c.number, c.next_event, c.next_due FROM commits AS c
                    WHERE c.partition = p.partition ORDER BY c.number DESC LIMIT 1) AS c ON true;
    RETURN QUERY
    SELECT 'ready', p.partition, NULL::uuid, r.n, NULL::bigint, NULL::bigint, r.lane, r.class
      FROM unnest(v_changed) AS p(partition), ready_counts_1(p.partition) AS r;
END
$$;

-- Who wrote a version, and which is the newest.
CREATE FUNCTION written_1(p_partition integer, p_number bigint, OUT id uuid, OUT newest bigint)
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
    SELECT c.id INTO id FROM commits AS c WHERE c.partition = p_partition AND c.number = p_number;
    SELECT c.number INTO newest FROM commits AS c WHERE c.partition = p_partition ORDER BY c.number DESC LIMIT 1;
END
$$;

CREATE FUNCTION payloads_1(p_executions uuid[], p_slots text[])
RETURNS TABLE (place bigint, content_type text, bytes bytea)
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
    SELECT u.place, p.content_type, p.bytes
      FROM unnest(p_executions, p_slots) WITH ORDINALITY AS u(execution, slot, place),
           LATERAL (SELECT p.content_type, p.bytes FROM payloads AS p
                     WHERE p.execution = u.execution AND p.slot = u.slot LIMIT 1) AS p;
END
$$;

CREATE FUNCTION attempts_1(p_execution uuid) RETURNS TABLE (record text)
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
    RETURN QUERY SELECT a.record FROM attempts AS a WHERE a.execution = p_execution ORDER BY a.number;
END
$$;

-- A stretch of executions in the order of their ids. What the columns rule out comes without its content.
CREATE FUNCTION executions_1(
    p_after uuid, p_newest_first boolean, p_limit bigint, p_namespace text, p_lane text, p_kind text,
    p_states text[], p_reason text, p_created_from bigint, p_created_before bigint)
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
DECLARE
    v_row record;
BEGIN
    IF p_newest_first THEN
        RETURN QUERY
        SELECT e.id, CASE WHEN e.fits THEN e.spec END, CASE WHEN e.fits THEN e.live END
          FROM (SELECT x.id, x.spec, x.live,
                       (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_lane IS NULL OR x.lane = p_lane)
                       AND (p_kind IS NULL OR x.kind = p_kind)
                       AND (p_states IS NULL OR x.state = ANY (p_states))
                       AND (p_reason IS NULL OR x.reason = p_reason)
                       AND (p_created_from IS NULL OR x.created_at >= p_created_from)
                       AND (p_created_before IS NULL OR x.created_at < p_created_before) AS fits
                  FROM executions AS x WHERE x.id < coalesce(p_after, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                 ORDER BY x.id DESC LIMIT p_limit) AS e;
    ELSE
        RETURN QUERY
        SELECT e.id, CASE WHEN e.fits THEN e.spec END, CASE WHEN e.fits THEN e.live END
          FROM (SELECT x.id, x.spec, x.live,
                       (p_namespace IS NULL OR x.namespace = p_namespace) AND (p_lane IS NULL OR x.lane = p_lane)
                       AND (p_kind IS NULL OR x.kind = p_kind)
                       AND (p_states IS NULL OR x.state = ANY (p_states))
                       AND (p_reason IS NULL OR x.reason = p_reason)
                       AND (p_created_from IS NULL OR x.created_at >= p_created_from)
                       AND (p_created_before IS NULL OR x.created_at < p_created_before) AS fits
                  FROM executions AS x WHERE x.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
                 ORDER BY x.id LIMIT p_limit) AS e;
    END IF;
END
$$;

CREATE FUNCTION all_counts_1(p_partitions integer)
RETURNS TABLE (namespace text, lane text, kind text, state text, n bigint)
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
    SELECT c.namespace, c.lane, c.kind, c.state, sum(c.n)::bigint
      FROM generate_series(0, p_partitions - 1) AS p(partition), counts_1(p.partition) AS c
     GROUP BY c.namespace, c.lane, c.kind, c.state ORDER BY 1, 2, 3, 4;
END
$$;

-- Packs of events from the one that holds a number on, at least so many events if there are. The first row
-- tells the oldest number that is kept and the next one to come.
CREATE FUNCTION events_1(p_partition integer, p_from bigint, p_limit bigint)
RETURNS TABLE (tag text, first bigint, last bigint, body text)
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
    v_next bigint;
    v_pack record;
    v_found bigint := 0;
BEGIN
    SELECT c.next_event INTO v_next FROM commits AS c WHERE c.partition = p_partition
     ORDER BY c.number DESC LIMIT 1;
    RETURN QUERY SELECT 'ends', (SELECT min(e.first) FROM events AS e WHERE e.partition = p_partition), v_next,
                        NULL;
    FOR v_pack IN
        SELECT e.first, e.last, e.body FROM events AS e
         WHERE e.partition = p_partition
           AND e.first >= coalesce((SELECT max(b.first) FROM events AS b
                                     WHERE b.partition = p_partition AND b.first <= p_from), p_from)
         ORDER BY e.first
    LOOP
        EXIT WHEN v_found >= p_limit;
        CONTINUE WHEN v_pack.last < p_from;
        v_found := v_found + v_pack.last - greatest(v_pack.first, p_from) + 1;
        RETURN QUERY SELECT 'pack', v_pack.first, v_pack.last, v_pack.body;
    END LOOP;
END
$$;
