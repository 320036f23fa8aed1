-- What a commit writes comes as rows of lists, one row for each table and kind of write: x executions, r ready,
-- a agenda, e ended, f flows, g edges, each with d for what goes, i for what comes, u for what changes, and p where
-- it is not told whether it was there. A row that is NULL costs
-- nothing, and lists inside a row cost less than arguments of their own, each of which PL/pgSQL unfolds.
CREATE TYPE heads_columns_1 AS (
    partition integer[], number bigint[], id uuid[], previous_id uuid[], next_event bigint[], sweep_at bigint[],
    now bigint[], next_due bigint[], added_due bigint[], executions bytea[], ended bytea[], others text[]);
CREATE TYPE purged_columns_1 AS (
    partition integer[], id uuid[]);
CREATE TYPE inserted_columns_1 AS (
    partition integer[], id uuid[], created_at bigint[], namespace text[], lane text[], kind text[], spec text[],
    changed_at bigint[], state text[], reason text[], live text[], holder uuid[], flow uuid[], member bigint[]);
CREATE TYPE updated_columns_1 AS (
    partition integer[], id uuid[], changed_at bigint[], state text[], reason text[], live text[], holder uuid[]);
CREATE TYPE ready_removed_columns_1 AS (
    partition integer[], lane text[], class text[], rank bigint[], number bigint[]);
CREATE TYPE ready_added_columns_1 AS (
    partition integer[], lane text[], class text[], rank bigint[], number bigint[], execution uuid[]);
CREATE TYPE agenda_removed_columns_1 AS (
    partition integer[], due bigint[], kind text[], subject uuid[]);
CREATE TYPE agenda_added_columns_1 AS (
    partition integer[], due bigint[], kind text[], subject uuid[], message text[]);
CREATE TYPE ended_removed_columns_1 AS (
    partition integer[], remove_at bigint[], execution uuid[]);
CREATE TYPE ended_added_columns_1 AS (
    partition integer[], remove_at bigint[], execution uuid[]);
CREATE TYPE payloads_columns_1 AS (
    partition integer[], execution uuid[], slot text[], content_type text[], bytes bytea[]);
CREATE TYPE dedup_keys_columns_1 AS (
    partition integer[], namespace text[], key text[], execution uuid[], expires_at bigint[]);
CREATE TYPE flows_removed_columns_1 AS (
    partition integer[], id uuid[]);
CREATE TYPE flows_columns_1 AS (
    partition integer[], id uuid[], created_at bigint[], namespace text[], kind text[], spec text[], state text[],
    revision bigint[], changed_at bigint[], remove_at bigint[], live text[]);
CREATE TYPE edges_removed_columns_1 AS (
    partition integer[], upstream uuid[], downstream uuid[]);
CREATE TYPE edges_columns_1 AS (
    partition integer[], upstream uuid[], downstream uuid[], flow uuid[], number bigint[], condition text[],
    field text[], counted text[], needed boolean[], passes boolean[], created_at bigint[], created_by text[]);
CREATE TYPE counts_columns_1 AS (
    partition integer[], number bigint[], namespace text[], lane text[], kind text[], state text[],
    delta bigint[]);
CREATE TYPE ready_counts_columns_1 AS (
    partition integer[], number bigint[], lane text[], class text[], delta bigint[]);
CREATE TYPE events_columns_1 AS (
    partition integer[], first bigint[], last bigint[], at bigint[], body text[]);
-- Everything about waitpoints, signals, steps, streams and frames together, so that a commit without any of them has
-- one empty argument more and not seven.
CREATE TYPE mail_columns_1 AS (
    closed_partition integer[], closed_execution uuid[], closed_number bigint[],
    opened_partition integer[], opened_execution uuid[], opened_number bigint[], opened_namespace text[],
    opened_lane text[], opened_kind text[], opened_name text[], opened_reason text[], opened_at bigint[],
    opened_expires_at bigint[], opened_digest bytea[],
    signal_partition integer[], signal_execution uuid[], signal_number bigint[], signal_at bigint[],
    signal_name text[], signal_waitpoint bigint[], signal_source text[], signal_correlation text[],
    signal_content_type text[], signal_bytes bytea[],
    step_partition integer[], step_execution uuid[], step_name text[], step_occurrence bigint[],
    step_number bigint[], step_kind text[], step_attempt bigint[], step_started_at bigint[],
    step_ended_at bigint[], step_content_type text[], step_bytes bytea[],
    stream_partition integer[], stream_execution uuid[], stream_attempt bigint[], stream_next bigint[],
    stream_first bigint[], stream_summary_version bigint[], stream_summary text[], stream_durable_at bigint[],
    stream_best_effort_at bigint[], stream_trim_at bigint[],
    trim_partition integer[], trim_execution uuid[], trim_attempt bigint[], trim_number bigint[],
    trim_mode text[], trim_before bigint[],
    frame_partition integer[], frame_execution uuid[], frame_attempt bigint[], frame_number bigint[],
    frame_at bigint[], frame_kind text[], frame_mode text[], frame_bytes bytea[]);

-- Applies the changes of several partitions, each only if its partition is still at the version they were
-- decided on, and answers which were. At most one commit per partition in one call.
--
-- The settings pin the plans: each statement starts from the arrays and finds its rows through an index,
-- whatever the statistics say, also when they say that a table is empty. Rows to change or remove are looked
-- up one by one (LATERAL ... LIMIT 1 cannot be turned around) and then reached by their address. What may be there
-- already is looked up too, because that costs less than INSERT ... ON CONFLICT.
CREATE FUNCTION commit_1(
    p_now bigint, p_by uuid,
    ch heads_columns_1, xd purged_columns_1, xi inserted_columns_1, xu updated_columns_1,
    rd ready_removed_columns_1, ri ready_added_columns_1, ad agenda_removed_columns_1, ai agenda_added_columns_1,
    ed ended_removed_columns_1, ei ended_added_columns_1, pi payloads_columns_1, dk dedup_keys_columns_1,
    fd flows_removed_columns_1, fp flows_columns_1, gd edges_removed_columns_1, gp edges_columns_1,
    nc counts_columns_1, rc ready_counts_columns_1, ev events_columns_1, ml mail_columns_1,
    p_rare text,
    OUT won integer[], OUT now_ms bigint)
LANGUAGE plpgsql
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET enable_material = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_count bigint;
    v_all boolean;
    v_gone uuid[];
BEGIN
    now_ms := coalesce(p_now, clock_ms());

    -- The guard.
    WITH inserted AS (
        INSERT INTO commits (partition, number, id, previous_id, at_ms, next_event, sweep_at, now_ms, next_due,
                             executions, ended, others)
        SELECT u.partition, u.number, u.id, u.previous_id, commit_1.now_ms, u.next_event, u.sweep_at, u.now_ms,
               -- Whoever does not know when the first entry is due has at least not removed it.
               CASE WHEN u.next_due IS NOT NULL THEN u.next_due
                    ELSE (SELECT least(c.next_due, u.added_due)
                            FROM commits AS c WHERE c.partition = u.partition ORDER BY c.number DESC LIMIT 1) END,
               u.executions, u.ended, u.others
          FROM unnest(ch.partition, ch.number, ch.id, ch.previous_id, ch.next_event, ch.sweep_at, ch.now, ch.next_due,
                      ch.added_due, ch.executions, ch.ended, ch.others)
               AS u(partition, number, id, previous_id, next_event, sweep_at, now_ms, next_due, added_due,
                    executions, ended, others)
         WHERE (SELECT c.id = u.previous_id AND c.number = u.number - 1
                  FROM commits AS c WHERE c.partition = u.partition ORDER BY c.number DESC LIMIT 1)
               IS NOT DISTINCT FROM CASE WHEN u.number > 1 THEN true END
           AND (u.number > 1 OR u.previous_id = '00000000-0000-0000-0000-000000000000')
           AND NOT EXISTS (SELECT FROM turns AS t
                            WHERE t.partition = u.partition AND t.server <> p_by
                              AND t.until_ms > commit_1.now_ms)
         ORDER BY u.partition
        ON CONFLICT DO NOTHING
        RETURNING partition)
    SELECT coalesce(array_agg(partition), '{}') INTO won FROM inserted;
    IF won = '{}' THEN
        RETURN;
    END IF;
    v_all := cardinality(won) = cardinality(ch.partition);

    DELETE FROM turns AS t WHERE t.partition = ANY (won) AND t.server = p_by;

    -- Executions: removed first, because an id may be removed and made anew.
    IF xd IS NOT NULL THEN
        v_gone := ARRAY(SELECT u.id FROM unnest(xd.partition, xd.id) AS u(partition, id)
                         WHERE v_all OR u.partition = ANY (won));
        DELETE FROM executions WHERE id = ANY (v_gone);
        DELETE FROM payloads WHERE execution = ANY (v_gone);
        DELETE FROM attempts WHERE execution = ANY (v_gone);
        DELETE FROM signals WHERE execution = ANY (v_gone);
        DELETE FROM steps WHERE execution = ANY (v_gone);
        DELETE FROM streams WHERE execution = ANY (v_gone);
        DELETE FROM frames WHERE execution = ANY (v_gone);
        DELETE FROM leases USING (
            SELECT t.ctid FROM unnest(xd.partition, xd.id) AS u(partition, id),
                   LATERAL (SELECT l.ctid FROM leases AS l
                             WHERE l.partition = u.partition AND l.execution = u.id LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE leases.ctid = found.ctid;
    END IF;
    IF xi IS NOT NULL THEN
        INSERT INTO executions (id, partition, created_at, namespace, lane, kind, spec, changed_at, state, reason,
                                live, flow, member)
        SELECT u.id, u.partition, u.created_at, u.namespace, u.lane, u.kind, u.spec, u.changed_at, u.state,
               u.reason, u.live, u.flow, u.member
          FROM unnest(xi.partition, xi.id, xi.created_at, xi.namespace, xi.lane, xi.kind, xi.spec, xi.changed_at,
                      xi.state, xi.reason, xi.live, xi.flow, xi.member)
               AS u(partition, id, created_at, namespace, lane, kind, spec, changed_at, state, reason, live, flow,
                    member)
         WHERE v_all OR u.partition = ANY (won);
        INSERT INTO leases (partition, execution, instance)
        SELECT u.partition, u.id, u.holder
          FROM unnest(xi.partition, xi.id, xi.holder) AS u(partition, id, holder)
         WHERE u.holder IS NOT NULL AND (v_all OR u.partition = ANY (won));
    END IF;
    IF xu IS NOT NULL THEN
        UPDATE executions
           SET changed_at = found.changed_at, state = found.state, reason = found.reason, live = found.live
          FROM (SELECT t.ctid, u.changed_at, u.state, u.reason, u.live
                  FROM unnest(xu.partition, xu.id, xu.changed_at, xu.state, xu.reason, xu.live)
                       AS u(partition, id, changed_at, state, reason, live),
                       LATERAL (SELECT e.ctid FROM executions AS e WHERE e.id = u.id LIMIT 1) AS t
                 WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE executions.ctid = found.ctid;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        -- An update of nothing means that decision and store disagree; better to refuse than to drift.
        IF v_count <> (SELECT count(*) FROM unnest(xu.partition) AS u(partition)
                        WHERE v_all OR u.partition = ANY (won)) THEN
            RAISE EXCEPTION 'an execution that should be updated is not there' USING ERRCODE = 'FF001';
        END IF;
        WITH found AS MATERIALIZED (
            SELECT u.partition, u.id, u.holder, t.address, t.instance
              FROM unnest(xu.partition, xu.id, xu.holder) AS u(partition, id, holder)
                   LEFT JOIN LATERAL (SELECT l.ctid AS address, l.instance FROM leases AS l
                                       WHERE l.partition = u.partition AND l.execution = u.id LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        gone AS (
            DELETE FROM leases USING found WHERE leases.ctid = found.address AND found.holder IS NULL),
        moved AS (
            UPDATE leases SET instance = found.holder FROM found
             WHERE leases.ctid = found.address AND found.holder <> found.instance)
        INSERT INTO leases (partition, execution, instance)
        SELECT partition, id, holder FROM found WHERE holder IS NOT NULL AND address IS NULL;
    END IF;

    -- The ordered lists. Removals come first: an entry may move.
    IF rd IS NOT NULL THEN
        DELETE FROM ready USING (
            SELECT t.ctid
              FROM unnest(rd.partition, rd.lane, rd.class, rd.rank, rd.number)
                   AS u(partition, lane, class, rank, number),
                   LATERAL (SELECT r.ctid FROM ready AS r
                             WHERE r.partition = u.partition AND r.lane = u.lane AND r.class = u.class
                               AND r.rank = u.rank AND r.number = u.number LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE ready.ctid = found.ctid;
    END IF;
    IF ri IS NOT NULL THEN
        INSERT INTO ready (partition, lane, class, rank, number, execution)
        SELECT u.* FROM unnest(ri.partition, ri.lane, ri.class, ri.rank, ri.number, ri.execution)
                        AS u(partition, lane, class, rank, number, execution)
         WHERE v_all OR u.partition = ANY (won);
    END IF;
    IF ad IS NOT NULL THEN
        DELETE FROM agenda USING (
            SELECT t.ctid
              FROM unnest(ad.partition, ad.due, ad.kind, ad.subject) AS u(partition, due, kind, subject),
                   LATERAL (SELECT a.ctid FROM agenda AS a
                             WHERE a.partition = u.partition AND a.due = u.due AND a.subject = u.subject
                               AND a.kind = u.kind LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE agenda.ctid = found.ctid;
    END IF;
    IF ai IS NOT NULL THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(ai.partition, ai.due, ai.kind, ai.subject, ai.message)
                   AS u(partition, due, kind, subject, message)
                   LEFT JOIN LATERAL (SELECT g.ctid AS address FROM agenda AS g
                                       WHERE g.partition = u.partition AND g.due = u.due AND g.subject = u.subject
                                         AND g.kind = u.kind LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        same AS (
            UPDATE agenda SET message = found.message FROM found WHERE agenda.ctid = found.address)
        INSERT INTO agenda (partition, due, kind, subject, message)
        SELECT partition, due, kind, subject, message FROM found WHERE address IS NULL;
    END IF;
    IF ed IS NOT NULL THEN
        DELETE FROM ended USING (
            SELECT t.ctid
              FROM unnest(ed.partition, ed.remove_at, ed.execution) AS u(partition, remove_at, execution),
                   LATERAL (SELECT e.ctid FROM ended AS e
                             WHERE e.partition = u.partition AND e.remove_at = u.remove_at
                               AND e.execution = u.execution LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE ended.ctid = found.ctid;
    END IF;
    IF ei IS NOT NULL THEN
        INSERT INTO ended (partition, remove_at, execution)
        SELECT u.* FROM unnest(ei.partition, ei.remove_at, ei.execution) AS u(partition, remove_at, execution)
               LEFT JOIN LATERAL (SELECT e.ctid AS address FROM ended AS e
                                   WHERE e.partition = u.partition AND e.remove_at = u.remove_at
                                     AND e.execution = u.execution LIMIT 1) AS t ON true
         WHERE t.address IS NULL AND (v_all OR u.partition = ANY (won));
    END IF;

    -- What is kept beside executions.
    IF pi IS NOT NULL THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(pi.partition, pi.execution, pi.slot, pi.content_type, pi.bytes)
                   AS u(partition, execution, slot, content_type, bytes)
                   LEFT JOIN LATERAL (SELECT p.ctid AS address FROM payloads AS p
                                       WHERE p.execution = u.execution AND p.slot = u.slot LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        replaced AS (
            UPDATE payloads SET content_type = found.content_type, bytes = found.bytes FROM found
             WHERE payloads.ctid = found.address)
        INSERT INTO payloads (execution, slot, content_type, bytes)
        SELECT execution, slot, content_type, bytes FROM found WHERE address IS NULL;
    END IF;
    IF dk IS NOT NULL THEN
        DELETE FROM dedup USING (
            SELECT t.ctid
              FROM unnest(dk.partition, dk.namespace, dk.key, dk.execution) AS u(partition, namespace, key, execution),
                   LATERAL (SELECT d.ctid FROM dedup AS d
                             WHERE d.partition = u.partition AND d.namespace = u.namespace AND d.key = u.key
                             LIMIT 1) AS t
             WHERE u.execution IS NULL AND (v_all OR u.partition = ANY (won))) AS found
         WHERE dedup.ctid = found.ctid;
        INSERT INTO dedup (partition, namespace, key, execution, expires_at)
        SELECT u.* FROM unnest(dk.partition, dk.namespace, dk.key, dk.execution, dk.expires_at)
                        AS u(partition, namespace, key, execution, expires_at)
         WHERE u.execution IS NOT NULL AND (v_all OR u.partition = ANY (won))
        ON CONFLICT (partition, namespace, key)
        DO UPDATE SET execution = excluded.execution, expires_at = excluded.expires_at;
    END IF;

    IF fp IS NOT NULL OR gp IS NOT NULL OR fd IS NOT NULL OR gd IS NOT NULL THEN
        PERFORM commit_flows_1(won, v_all, fd, fp, gd, gp);
    END IF;

    -- Counters: a new row with the new total, and the end of the row before.
    IF nc IS NOT NULL THEN
        WITH changed AS MATERIALIZED (
            SELECT u.*, old.address, coalesce(old.n, 0) AS n
              FROM unnest(nc.partition, nc.number, nc.namespace, nc.lane, nc.kind, nc.state, nc.delta)
                   AS u(partition, number, namespace, lane, kind, state, delta)
                   LEFT JOIN LATERAL (
                       SELECT c.ctid AS address, c.n FROM counts AS c
                        WHERE c.partition = u.partition AND c.namespace = u.namespace AND c.lane = u.lane
                          AND c.kind = u.kind AND c.state = u.state
                        ORDER BY c.number DESC LIMIT 1) AS old ON true
             WHERE v_all OR u.partition = ANY (won)),
        gone AS (DELETE FROM counts USING changed WHERE counts.ctid = changed.address)
        INSERT INTO counts (partition, number, namespace, lane, kind, state, n)
        SELECT partition, number, namespace, lane, kind, state, n + delta FROM changed;
    END IF;
    IF rc IS NOT NULL THEN
        WITH changed AS MATERIALIZED (
            SELECT u.*, old.address, coalesce(old.n, 0) AS n
              FROM unnest(rc.partition, rc.number, rc.lane, rc.class, rc.delta)
                   AS u(partition, number, lane, class, delta)
                   LEFT JOIN LATERAL (
                       SELECT c.ctid AS address, c.n FROM ready_counts AS c
                        WHERE c.partition = u.partition AND c.lane = u.lane AND c.class = u.class
                        ORDER BY c.number DESC LIMIT 1) AS old ON true
             WHERE v_all OR u.partition = ANY (won)),
        gone AS (DELETE FROM ready_counts USING changed WHERE ready_counts.ctid = changed.address)
        INSERT INTO ready_counts (partition, number, lane, class, n)
        SELECT partition, number, lane, class, n + delta FROM changed;
    END IF;

    IF ev IS NOT NULL THEN
        INSERT INTO events (partition, first, last, at, body)
        SELECT u.* FROM unnest(ev.partition, ev.first, ev.last, ev.at, ev.body) AS u(partition, first, last, at, body)
         WHERE v_all OR u.partition = ANY (won);
    END IF;
    IF ml IS NOT NULL THEN
        PERFORM commit_mail_1(won, v_all, ml);
    END IF;
    IF p_rare IS NOT NULL THEN
        PERFORM commit_rare_1(won, now_ms, p_rare::jsonb);
    END IF;
END
$$;

-- What few commits write: attempts that made room, settings, messages, fates of posted submissions, and the
-- end of what is old.
CREATE FUNCTION commit_rare_1(won integer[], p_now bigint, rare jsonb) RETURNS void
LANGUAGE plpgsql
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
    r record;
BEGIN
    INSERT INTO attempts (execution, number, record)
    SELECT u.execution, u.number, u.record
      FROM jsonb_to_recordset(rare -> 'attempts')
           AS u(partition integer, execution uuid, number bigint, record text)
     WHERE u.partition = ANY (won)
    ON CONFLICT (execution, number) DO UPDATE SET record = excluded.record;

    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'lanes')
                      AS u(partition integer, name text, mode text, record text)
              WHERE u.partition = ANY (won) LOOP
        IF r.record IS NULL THEN
            DELETE FROM lanes AS l WHERE l.partition = r.partition AND l.name = r.name;
        ELSE
            INSERT INTO lanes (partition, name, mode, record) VALUES (r.partition, r.name, r.mode, r.record)
            ON CONFLICT (partition, name) DO UPDATE SET mode = excluded.mode, record = excluded.record;
        END IF;
    END LOOP;

    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'workers')
                      AS u(partition integer, instance uuid, name text, mode text, record text)
              WHERE u.partition = ANY (won) LOOP
        IF r.record IS NULL THEN
            DELETE FROM workers AS w WHERE w.partition = r.partition AND w.instance = r.instance;
        ELSE
            INSERT INTO workers (partition, instance, name, mode, record)
            VALUES (r.partition, r.instance, r.name, r.mode, r.record)
            ON CONFLICT (partition, instance)
            DO UPDATE SET name = excluded.name, mode = excluded.mode, record = excluded.record;
        END IF;
    END LOOP;

    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'keys')
                      AS u(partition integer, id bigint, secret text, created_at bigint, retires_at bigint,
                           revision bigint)
              WHERE u.partition = ANY (won) LOOP
        IF r.secret IS NULL THEN
            DELETE FROM signing_keys AS k WHERE k.partition = r.partition AND k.id = r.id;
        ELSE
            INSERT INTO signing_keys (partition, id, secret, created_at, retires_at, revision)
            VALUES (r.partition, r.id, decode(r.secret, 'hex'), r.created_at, r.retires_at, r.revision)
            ON CONFLICT (partition, id)
            DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at,
                          retires_at = excluded.retires_at, revision = excluded.revision;
        END IF;
    END LOOP;

    INSERT INTO links (partition, peer, sent, received)
    SELECT u.* FROM jsonb_to_recordset(rare -> 'links')
                    AS u(partition integer, peer integer, sent bigint, received bigint)
     WHERE u.partition = ANY (won)
    ON CONFLICT (partition, peer) DO UPDATE SET sent = excluded.sent, received = excluded.received;

    -- A pack of events that is cut in two is written anew.
    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'trims') AS u(partition integer, below bigint)
              WHERE u.partition = ANY (won) LOOP
        WITH cut AS (
            DELETE FROM events AS e WHERE e.partition = r.partition AND e.first < r.below
            RETURNING e.first, e.last, e.at, e.body),
        kept AS (
            SELECT cut.last, cut.at, string_agg(one.body, ',' ORDER BY one.place) AS body
              FROM cut, json_array_elements(cut.body::json) WITH ORDINALITY AS each(body, place),
                   LATERAL (SELECT each.body::text AS body, each.place) AS one
             WHERE cut.last >= r.below AND (each.body ->> 'number')::bigint >= r.below
             GROUP BY cut.last, cut.at)
        INSERT INTO events (partition, first, last, at, body)
        SELECT r.partition, r.below, kept.last, kept.at, '[' || kept.body || ']' FROM kept;
    END LOOP;

    WITH fates AS MATERIALIZED (
        SELECT u.partition, u.number, u.reason, u.at, t.address
          FROM jsonb_to_recordset(rare -> 'inbox')
               AS u(partition integer, number bigint, reason text, at bigint),
               LATERAL (SELECT x.ctid AS address FROM inbox AS x
                         WHERE x.partition = u.partition AND x.number = u.number LIMIT 1) AS t
         WHERE u.partition = ANY (won)),
    gone AS (
        DELETE FROM inbox USING fates WHERE inbox.ctid = fates.address
        RETURNING inbox.*, fates.reason, fates.at)
    INSERT INTO dead_letters (partition, number, id, posted_at, kind, namespace, lane, key, options, content_type,
                              input, reason, at)
    SELECT partition, number, id, posted_at, kind, namespace, lane, key, options, content_type, input, reason, at
      FROM gone WHERE reason IS NOT NULL;

    -- After the fates of posted rows, because a row may die and be reposted or dropped in one commit.
    WITH letters AS MATERIALIZED (
        SELECT u.again, t.address
          FROM jsonb_to_recordset(rare -> 'letters') AS u(partition integer, number bigint, again boolean),
               LATERAL (SELECT d.ctid AS address FROM dead_letters AS d
                         WHERE d.partition = u.partition AND d.number = u.number LIMIT 1) AS t
         WHERE u.partition = ANY (won)),
    gone AS (
        DELETE FROM dead_letters USING letters WHERE dead_letters.ctid = letters.address
        RETURNING dead_letters.*, letters.again)
    INSERT INTO inbox (partition, number, id, posted_at, kind, namespace, lane, key, options, content_type, input)
    OVERRIDING SYSTEM VALUE
    SELECT partition, number, id, posted_at, kind, namespace, lane, key, options, content_type, input
      FROM gone WHERE again;

    -- Old commit rows go from the back, in steps.
    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'prune')
                      AS u(partition integer, upto bigint, before bigint, most bigint)
              WHERE u.partition = ANY (won) LOOP
        DELETE FROM commits WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM commits AS c
             WHERE c.partition = r.partition AND c.number <= r.upto AND c.at_ms < p_now - r.before
             ORDER BY c.number LIMIT r.most));
    END LOOP;

    -- Counters that stand at zero are rare; their rows may stay for a while.
    FOR r IN SELECT * FROM jsonb_to_recordset(rare -> 'zeros') AS u(partition integer)
              WHERE u.partition = ANY (won) LOOP
        DELETE FROM counts AS c WHERE c.partition = r.partition AND c.n = 0;
        DELETE FROM ready_counts AS c WHERE c.partition = r.partition AND c.n = 0;
    END LOOP;
END
$$;
