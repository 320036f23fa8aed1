-- The functions in this file are STABLE: everything they read, they read in the snapshot of the statement that
-- calls them, which is what makes the answers of one load all of one version.

-- How many entries are ready, by lane and class. Jumps from key to key and reads the newest row of each.
CREATE FUNCTION ready_counts_1(p_partition integer) RETURNS TABLE (lane text, class text, n bigint)
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
    WITH RECURSIVE newest AS (
        (SELECT c.lane, c.class, c.n FROM ready_counts AS c WHERE c.partition = p_partition
          ORDER BY c.partition, c.lane, c.class, c.number DESC LIMIT 1)
        UNION ALL
        SELECT next.* FROM newest, LATERAL (
            SELECT c.lane, c.class, c.n FROM ready_counts AS c
             WHERE c.partition = p_partition AND (c.lane, c.class) > (newest.lane, newest.class)
             ORDER BY c.partition, c.lane, c.class, c.number DESC LIMIT 1) AS next)
    SELECT newest.lane, newest.class, newest.n FROM newest WHERE newest.n > 0;
END
$$;

-- Exact counts of all executions of one partition, in the same way.
CREATE FUNCTION counts_1(p_partition integer)
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
    WITH RECURSIVE newest AS (
        (SELECT c.namespace, c.lane, c.kind, c.state, c.n FROM counts AS c WHERE c.partition = p_partition
          ORDER BY c.partition, c.namespace, c.lane, c.kind, c.state, c.number DESC LIMIT 1)
        UNION ALL
        SELECT next.* FROM newest, LATERAL (
            SELECT c.namespace, c.lane, c.kind, c.state, c.n FROM counts AS c
             WHERE c.partition = p_partition
               AND (c.namespace, c.lane, c.kind, c.state)
                   > (newest.namespace, newest.lane, newest.kind, newest.state)
             ORDER BY c.partition, c.namespace, c.lane, c.kind, c.state, c.number DESC LIMIT 1) AS next)
    SELECT newest.namespace, newest.lane, newest.kind, newest.state, newest.n FROM newest WHERE newest.n > 0;
END
$$;

-- The first pack of events that holds an event at or after a time. A partition's time never goes back, so the
-- packs are in the order of their times, and a search by halves needs no index on the time.
CREATE FUNCTION pack_since_1(p_partition integer, p_at bigint) RETURNS TABLE (first bigint, body text)
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
    v_low bigint; v_high bigint; v_middle bigint;
    v_pack record;
BEGIN
    SELECT min(e.first), max(e.first) + 1 INTO v_low, v_high FROM events AS e WHERE e.partition = p_partition;
    WHILE v_low < v_high LOOP
        v_middle := v_low + (v_high - v_low) / 2;
        SELECT e.last, e.at INTO v_pack FROM events AS e
         WHERE e.partition = p_partition AND e.first >= v_middle ORDER BY e.first LIMIT 1;
        IF v_pack.at < p_at THEN
            v_low := v_pack.last + 1;
        ELSE
            v_high := v_middle;
        END IF;
    END LOOP;
    RETURN QUERY SELECT e.first, e.body FROM events AS e
                  WHERE e.partition = p_partition AND e.first >= v_low ORDER BY e.first LIMIT 1;
END
$$;

-- Number and time of the first event at or after a time.
CREATE FUNCTION first_event_since_1(p_partition integer, p_at bigint) RETURNS TABLE (number bigint, at bigint)
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
    SELECT (e.body ->> 'number')::bigint, (e.body ->> 'at')::bigint
      FROM pack_since_1(p_partition, p_at) AS pack, json_array_elements(pack.body::json) AS e(body)
     WHERE (e.body ->> 'at')::bigint >= p_at
     ORDER BY 1 LIMIT 1;
END
$$;

-- The records that commits after a version have changed, as they are now, and the ids of those that have ended;
-- nothing but `unknown` if they cannot be told apart.
CREATE FUNCTION changes_1(
    p_partition integer, p_place integer, p_newest bigint, p_since bigint, p_commits bigint, p_keys bigint)
RETURNS TABLE (tag text, ask integer, a uuid, b uuid, i bigint, j bigint, k bigint, s text, t text, y bytea)
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
    v_ids uuid[];
    v_ended uuid[];
    v_others jsonb;
    v_found bigint;
BEGIN
    SELECT count(*), jsonb_agg(c.others::jsonb) FILTER (WHERE c.others IS NOT NULL)
      INTO v_found, v_others
      FROM commits AS c
     WHERE c.partition = p_partition AND c.number > p_since AND p_newest - p_since BETWEEN 0 AND p_commits;
    IF v_found = p_newest - p_since THEN
        -- Whether it has ended is what the newest commit says; two numbers for each commit keep that apart.
        SELECT coalesce(array_agg(u.id) FILTER (WHERE u.newest % 2 = 0), '{}'),
               coalesce(array_agg(u.id) FILTER (WHERE u.newest % 2 = 1), '{}')
          INTO v_ids, v_ended
          FROM (SELECT encode(substr(l.ids, 16 * g.place + 1, 16), 'hex')::uuid AS id, max(l.newest) AS newest
                  FROM commits AS c,
                       LATERAL (VALUES (c.executions, 2 * c.number), (c.ended, 2 * c.number + 1)) AS l(ids, newest),
                       generate_series(0, octet_length(l.ids) / 16 - 1) AS g(place)
                 WHERE c.partition = p_partition AND c.number > p_since
                 GROUP BY 1) AS u;
    END IF;
    IF v_ids IS NULL OR cardinality(v_ids) + cardinality(v_ended) > p_keys THEN
        RETURN QUERY SELECT 'unknown', p_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL, NULL, NULL::bytea;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'changed', p_place, u.id, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, e.spec, e.live,
           NULL::bytea
      FROM unnest(v_ids) AS u(id)
           LEFT JOIN LATERAL (SELECT e.spec, e.live FROM executions AS e WHERE e.id = u.id LIMIT 1) AS e ON true;
    RETURN QUERY
    SELECT 'ended', p_place, u.id, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL::bytea
      FROM unnest(v_ended) AS u(id);
    RETURN QUERY
    SELECT 'other', p_place, d.execution, NULL::uuid, d.expires_at, NULL::bigint, NULL::bigint, u.key::text,
           coalesce(l.record, w.record, g.message, f.record, e.record, o.record, sk.record), NULL::bytea
      FROM (SELECT DISTINCT one.key FROM jsonb_array_elements(v_others) AS many(keys),
                   jsonb_array_elements(many.keys) AS one(key)) AS u
           LEFT JOIN LATERAL (SELECT d.execution, d.expires_at FROM dedup AS d
                               WHERE d.partition = p_partition AND d.namespace = u.key #>> '{dedup,namespace}'
                                 AND d.key = u.key #>> '{dedup,key}' LIMIT 1) AS d ON true
           LEFT JOIN LATERAL (SELECT l.record FROM lanes AS l
                               WHERE l.partition = p_partition AND l.name = u.key ->> 'lane' LIMIT 1) AS l ON true
           LEFT JOIN LATERAL (SELECT w.record FROM workers AS w
                               WHERE w.partition = p_partition AND w.instance = (u.key ->> 'worker')::uuid
                               LIMIT 1) AS w ON true
           LEFT JOIN LATERAL (SELECT json_build_object('spec', f.spec::json, 'live', f.live::json)::text AS record
                                FROM flows AS f
                               WHERE f.id = (u.key ->> 'flow')::uuid AND f.partition = p_partition LIMIT 1) AS f ON true
           LEFT JOIN LATERAL (SELECT edge_record(e) AS record FROM edges AS e
                               WHERE e.upstream = (u.key #>> '{edge,upstream}')::uuid
                                 AND e.downstream = (u.key #>> '{edge,downstream}')::uuid
                                 AND e.partition = p_partition LIMIT 1) AS e ON true
           LEFT JOIN LATERAL (SELECT stream_record(o) AS record FROM streams AS o
                               WHERE o.execution = (u.key ->> 'stream')::uuid AND o.partition = p_partition
                               LIMIT 1) AS o ON true
           LEFT JOIN LATERAL (SELECT signing_key_record(sk) AS record FROM signing_keys AS sk
                               WHERE sk.partition = p_partition AND sk.id = (u.key ->> 'signing_key')::bigint
                               LIMIT 1) AS sk ON true
           LEFT JOIN LATERAL (SELECT g.message FROM agenda AS g
                               WHERE g.partition = p_partition AND g.due = (u.key #>> '{message,due}')::bigint
                                 AND g.kind = 'deliver'
                                 AND g.subject = (lpad(to_hex((u.key #>> '{message,subject,subject,to}')::bigint),
                                                       16, '0')
                                                  || lpad(to_hex((u.key #>> '{message,subject,subject,number}')::bigint),
                                                          16, '0'))::uuid
                               LIMIT 1) AS g ON true;
    RETURN QUERY
    SELECT 'link', p_place, NULL::uuid, NULL::uuid, l.peer::bigint, l.sent, l.received, NULL, NULL, NULL::bytea
      FROM links AS l WHERE l.partition = p_partition ORDER BY l.peer;
    RETURN QUERY
    SELECT 'ready_count', p_place, NULL::uuid, NULL::uuid, c.n, NULL::bigint, NULL::bigint, c.lane, c.class,
           NULL::bytea
      FROM ready_counts_1(p_partition) AS c;
END
$$;

-- Answers asks about one partition. The rows that answer an ask carry its place in the list; those about an
-- execution carry its id. The first row is the partition's head.
CREATE FUNCTION load_1(p_partition integer, p_executions uuid[], p_asks text)
RETURNS TABLE (tag text, ask integer, a uuid, b uuid, i bigint, j bigint, k bigint, s text, t text, y bytea)
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
    v_head record;
    v_ask jsonb;
    v_place integer := 0;
    v_last bigint;
    v_from bigint;
    v_below bigint;
    v_kept bigint;
    v_oldest bigint;
BEGIN
    SELECT c.* INTO v_head FROM commits AS c WHERE c.partition = p_partition ORDER BY c.number DESC LIMIT 1;
    RETURN QUERY SELECT 'head', NULL::integer, v_head.id, NULL::uuid, v_head.number, v_head.next_event,
                        v_head.now_ms, v_head.sweep_at::text, clock_ms()::text, NULL::bytea;
    IF p_executions <> '{}' THEN
        RETURN QUERY
        SELECT 'execution', NULL::integer, e.id, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, e.spec,
               e.live, NULL::bytea
          FROM executions AS e WHERE e.id = ANY (p_executions) AND e.partition = p_partition;
    END IF;
    IF p_asks IS NULL THEN
        RETURN;
    END IF;
    FOR v_ask IN SELECT * FROM jsonb_array_elements(p_asks::jsonb) LOOP
        v_place := (v_ask ->> 'ask')::integer;
        CASE v_ask ->> 'is'
        WHEN 'dedup' THEN
            RETURN QUERY
            SELECT 'dedup', v_place, d.execution, NULL::uuid, d.expires_at, NULL::bigint, NULL::bigint, NULL, NULL,
                   NULL::bytea
              FROM dedup AS d WHERE d.partition = p_partition AND d.namespace = v_ask ->> 'namespace'
                                AND d.key = v_ask ->> 'key';
        WHEN 'lane' THEN
            RETURN QUERY
            SELECT 'lane', v_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, l.record, NULL,
                   NULL::bytea
              FROM lanes AS l WHERE l.partition = p_partition AND l.name = v_ask ->> 'name';
        WHEN 'worker' THEN
            RETURN QUERY
            SELECT 'worker', v_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, w.record,
                   NULL, NULL::bytea
              FROM workers AS w WHERE w.partition = p_partition AND w.instance = (v_ask ->> 'id')::uuid;
        WHEN 'message' THEN
            RETURN QUERY
            SELECT 'message', v_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, g.message,
                   NULL, NULL::bytea
              FROM agenda AS g WHERE g.partition = p_partition AND g.due = (v_ask ->> 'due')::bigint
                                 AND g.subject = (v_ask ->> 'id')::uuid AND g.kind = 'deliver';
        WHEN 'flow', 'edge', 'members', 'downstream', 'upstream' THEN
            RETURN QUERY SELECT * FROM load_graph_1(p_partition, v_place, v_ask);
        WHEN 'stream', 'signing_key' THEN
            RETURN QUERY SELECT * FROM load_mail_1(p_partition, v_place, v_ask);
        WHEN 'opening' THEN
            RETURN QUERY SELECT * FROM load_mail_1(p_partition, v_place, '{"is": "signing_keys"}');
            RETURN QUERY
            SELECT 'link', v_place, NULL::uuid, NULL::uuid, l.peer::bigint, l.sent, l.received, NULL, NULL,
                   NULL::bytea
              FROM links AS l WHERE l.partition = p_partition ORDER BY l.peer;
            RETURN QUERY
            SELECT 'lane', v_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, l.record, NULL,
                   NULL::bytea
              FROM lanes AS l WHERE l.partition = p_partition ORDER BY l.name;
            RETURN QUERY
            SELECT 'worker', v_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, w.record,
                   NULL, NULL::bytea
              FROM workers AS w WHERE w.partition = p_partition ORDER BY w.instance;
            RETURN QUERY
            SELECT 'lease', v_place, l.instance, l.execution, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL,
                   NULL::bytea
              FROM leases AS l WHERE l.partition = p_partition;
            RETURN QUERY
            SELECT 'ready_count', v_place, NULL::uuid, NULL::uuid, c.n, NULL::bigint, NULL::bigint, c.lane, c.class,
                   NULL::bytea
              FROM ready_counts_1(p_partition) AS c;
        WHEN 'ready' THEN
            RETURN QUERY
            SELECT 'ready', v_place, r.execution, NULL::uuid, r.rank, r.number, NULL::bigint, e.spec, e.live,
                   NULL::bytea
              FROM (SELECT r.rank, r.number, r.execution FROM ready AS r
                     WHERE r.partition = p_partition AND r.lane = v_ask ->> 'lane' AND r.class = v_ask ->> 'class'
                       AND (r.rank, r.number) > ((v_ask ->> 'rank')::bigint, (v_ask ->> 'number')::bigint)
                     ORDER BY r.partition, r.lane, r.class, r.rank, r.number
                     LIMIT (v_ask ->> 'limit')::bigint) AS r
                   LEFT JOIN LATERAL (SELECT e.spec, e.live FROM executions AS e
                                       WHERE e.id = r.execution LIMIT 1) AS e ON true
             ORDER BY r.rank, r.number;
        WHEN 'agenda' THEN
            -- Nothing is due before the head says so; entries that were removed there need not be stepped over.
            v_from := greatest((v_ask ->> 'after')::bigint, v_head.next_due - 1);
            SELECT g.due INTO v_last FROM agenda AS g WHERE g.partition = p_partition AND g.due > v_from
             ORDER BY g.due OFFSET greatest((v_ask ->> 'limit')::bigint, 1) - 1 LIMIT 1;
            v_last := coalesce(v_last, 9223372036854775807);
            RETURN QUERY
            SELECT 'agenda', v_place, g.subject, NULL::uuid, g.due, NULL::bigint, NULL::bigint, g.kind, g.message,
                   NULL::bytea
              FROM agenda AS g WHERE g.partition = p_partition AND g.due > v_from AND g.due <= v_last
             ORDER BY g.due;
            IF EXISTS (SELECT FROM agenda AS g WHERE g.partition = p_partition AND g.due > v_last) THEN
                RETURN QUERY SELECT 'reached', v_place, NULL::uuid, NULL::uuid, v_last, NULL::bigint, NULL::bigint,
                                    NULL, NULL, NULL::bytea;
            END IF;
        WHEN 'sweep' THEN
            RETURN QUERY
            SELECT 'ended', v_place, e.execution, NULL::uuid, e.remove_at, NULL::bigint, NULL::bigint, NULL, NULL,
                   NULL::bytea
              FROM ended AS e WHERE e.partition = p_partition AND e.remove_at <= (v_ask ->> 'now')::bigint
             ORDER BY e.remove_at, e.execution LIMIT (v_ask ->> 'limit')::bigint;
            RETURN QUERY
            SELECT 'expired', v_place, d.execution, NULL::uuid, d.expires_at, NULL::bigint, NULL::bigint, d.namespace,
                   d.key, NULL::bytea
              FROM dedup AS d WHERE d.partition = p_partition AND d.expires_at <= (v_ask ->> 'now')::bigint
             ORDER BY d.expires_at, d.namespace, d.key LIMIT (v_ask ->> 'limit')::bigint;
            RETURN QUERY
            SELECT 'ended_flow', v_place, f.id, NULL::uuid, f.remove_at, NULL::bigint, NULL::bigint, NULL, NULL, NULL::bytea
              FROM flows AS f WHERE f.partition = p_partition AND f.remove_at <= (v_ask ->> 'now')::bigint
             ORDER BY f.remove_at, f.id LIMIT (v_ask ->> 'limit')::bigint;
            SELECT min(e.first) INTO v_oldest FROM events AS e WHERE e.partition = p_partition;
            v_below := NULL;
            v_kept := NULL;
            IF v_oldest IS NOT NULL THEN
                SELECT f.number, f.at INTO v_below, v_kept
                  FROM first_event_since_1(p_partition, (v_ask ->> 'events_before')::bigint) AS f;
                v_below := coalesce(v_below, v_head.next_event);
                -- In steps: a store that was asleep for a month must not remove a month in one commit.
                SELECT e.first, (e.body::json -> 0 ->> 'at')::bigint INTO v_from, v_last FROM events AS e
                 WHERE e.partition = p_partition AND e.first < v_below
                 ORDER BY e.first OFFSET (v_ask ->> 'packs')::bigint LIMIT 1;
                IF FOUND THEN
                    v_below := v_from;
                    v_kept := v_last;
                END IF;
                IF v_below <= v_oldest THEN
                    v_below := NULL;
                END IF;
            END IF;
            RETURN QUERY
            SELECT 'sweep', v_place, NULL::uuid, NULL::uuid, v_below,
                   least((SELECT min(e.remove_at) FROM ended AS e
                           WHERE e.partition = p_partition AND e.remove_at > (v_ask ->> 'now')::bigint),
                         (SELECT min(f.remove_at) FROM flows AS f
                           WHERE f.partition = p_partition AND f.remove_at > (v_ask ->> 'now')::bigint),
                         (SELECT min(d.expires_at) FROM dedup AS d
                           WHERE d.partition = p_partition AND d.expires_at > (v_ask ->> 'now')::bigint),
                         v_kept + ((v_ask ->> 'now')::bigint - (v_ask ->> 'events_before')::bigint)),
                   NULL::bigint, NULL, NULL, NULL::bytea;
        WHEN 'changes' THEN
            RETURN QUERY SELECT * FROM changes_1(p_partition, v_place, coalesce(v_head.number, 0),
                                                 (v_ask ->> 'since')::bigint, (v_ask ->> 'commits')::bigint,
                                                 (v_ask ->> 'keys')::bigint);
        WHEN 'inbox' THEN
            -- Up to the row with which the inputs together have so many bytes.
            RETURN QUERY
            SELECT 'posted', v_place, x.id, NULL::uuid, x.number, x.posted_at, NULL::bigint,
                   json_build_object('kind', x.kind, 'namespace', x.namespace, 'lane', x.lane, 'key', x.key,
                                     'options', x.options)::text,
                   x.content_type, x.input
              FROM (SELECT n.*, sum(octet_length(n.input)) OVER (ORDER BY n.number) - octet_length(n.input) AS before
                      FROM (SELECT * FROM inbox AS i WHERE i.partition = p_partition ORDER BY i.number
                             LIMIT (v_ask ->> 'limit')::bigint) AS n) AS x
             WHERE x.before < (v_ask ->> 'bytes')::bigint
             ORDER BY x.number;
        WHEN 'dead_letters' THEN
            RETURN QUERY
            SELECT 'dead', v_place, x.id, NULL::uuid, x.number, x.posted_at, x.at,
                   json_build_object('kind', x.kind, 'namespace', x.namespace, 'lane', x.lane, 'key', x.key,
                                     'options', x.options, 'reason', x.reason)::text,
                   x.content_type, x.input
              FROM dead_letters AS x
             WHERE x.partition = p_partition AND x.number > (v_ask ->> 'after')::bigint
             ORDER BY x.number LIMIT (v_ask ->> 'limit')::bigint;
        END CASE;
    END LOOP;
END
$$;
