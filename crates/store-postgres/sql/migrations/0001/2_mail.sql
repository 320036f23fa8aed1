-- What commits write of waitpoints, signals, steps, streams and frames, as in commit_1: lists of equal length for
-- each kind of write, and rows that may be there already are looked up one by one and reached by their address. The
-- settings are those of commit_1, which calls it: setting them again would cost more than many of its writes.
CREATE FUNCTION commit_mail_1(won integer[], v_all boolean, m mail_columns_1) RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    -- A waitpoint that changes is closed and opened.
    IF m.closed_partition <> '{}' THEN
        DELETE FROM waitpoints USING (
            SELECT t.ctid
              FROM unnest(m.closed_partition, m.closed_execution, m.closed_number) AS u(partition, execution, number),
                   LATERAL (SELECT w.ctid FROM waitpoints AS w
                             WHERE w.execution = u.execution AND w.number = u.number LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE waitpoints.ctid = found.ctid;
    END IF;
    IF m.opened_partition <> '{}' THEN
        INSERT INTO waitpoints (partition, execution, number, namespace, lane, kind, name, reason, opened_at,
                                expires_at, digest)
        SELECT u.* FROM unnest(m.opened_partition, m.opened_execution, m.opened_number, m.opened_namespace,
                               m.opened_lane, m.opened_kind, m.opened_name, m.opened_reason, m.opened_at,
                               m.opened_expires_at, m.opened_digest)
                        AS u(partition, execution, number, namespace, lane, kind, name, reason, opened_at,
                             expires_at, digest)
         WHERE v_all OR u.partition = ANY (won);
    END IF;
    IF m.signal_partition <> '{}' THEN
        INSERT INTO signals (execution, number, at, name, waitpoint, source, correlation, content_type, bytes)
        SELECT u.execution, u.number, u.at, u.name, u.waitpoint, u.source, u.correlation, u.content_type, u.bytes
          FROM unnest(m.signal_partition, m.signal_execution, m.signal_number, m.signal_at, m.signal_name,
                      m.signal_waitpoint, m.signal_source, m.signal_correlation, m.signal_content_type,
                      m.signal_bytes)
               AS u(partition, execution, number, at, name, waitpoint, source, correlation, content_type, bytes)
         WHERE v_all OR u.partition = ANY (won);
    END IF;
    IF m.step_partition <> '{}' THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(m.step_partition, m.step_execution, m.step_name, m.step_occurrence, m.step_number,
                          m.step_kind, m.step_attempt, m.step_started_at, m.step_ended_at, m.step_content_type,
                          m.step_bytes)
                   AS u(partition, execution, name, occurrence, number, kind, attempt, started_at, ended_at,
                        content_type, bytes)
                   LEFT JOIN LATERAL (SELECT s.ctid AS address FROM steps AS s
                                       WHERE s.execution = u.execution AND s.name = u.name
                                         AND s.occurrence = u.occurrence LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        replaced AS (
            UPDATE steps SET number = found.number, kind = found.kind, attempt = found.attempt,
                             started_at = found.started_at, ended_at = found.ended_at,
                             content_type = found.content_type, bytes = found.bytes
              FROM found WHERE steps.ctid = found.address)
        INSERT INTO steps (execution, name, occurrence, number, kind, attempt, started_at, ended_at, content_type,
                           bytes)
        SELECT execution, name, occurrence, number, kind, attempt, started_at, ended_at, content_type, bytes
          FROM found WHERE address IS NULL;
    END IF;
    IF m.stream_partition <> '{}' THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(m.stream_partition, m.stream_execution, m.stream_attempt, m.stream_next, m.stream_first,
                          m.stream_summary_version, m.stream_summary, m.stream_durable_at,
                          m.stream_best_effort_at, m.stream_trim_at)
                   AS u(partition, execution, attempt, next, first, summary_version, summary, durable_at,
                        best_effort_at, trim_at)
                   LEFT JOIN LATERAL (SELECT s.ctid AS address FROM streams AS s
                                       WHERE s.execution = u.execution LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        gone AS (
            DELETE FROM streams USING found WHERE streams.ctid = found.address AND found.attempt IS NULL),
        replaced AS (
            UPDATE streams SET attempt = found.attempt, next = found.next, first = found.first,
                               summary_version = found.summary_version, summary = found.summary,
                               durable_at = found.durable_at, best_effort_at = found.best_effort_at,
                               trim_at = found.trim_at
              FROM found WHERE streams.ctid = found.address AND found.attempt IS NOT NULL)
        INSERT INTO streams (execution, partition, attempt, next, first, summary_version, summary, durable_at,
                             best_effort_at, trim_at)
        SELECT execution, partition, attempt, next, first, summary_version, summary, durable_at, best_effort_at,
               trim_at
          FROM found WHERE address IS NULL AND attempt IS NOT NULL;
    END IF;
    -- Frames go before others come. A trim has a number or an age.
    IF m.trim_partition <> '{}' THEN
        DELETE FROM frames USING (
            SELECT t.ctid
              FROM unnest(m.trim_partition, m.trim_execution, m.trim_attempt, m.trim_number)
                   AS u(partition, execution, attempt, number),
                   LATERAL (SELECT f.ctid FROM frames AS f
                             WHERE f.execution = u.execution AND f.attempt = u.attempt AND f.number < u.number
                            OFFSET 0) AS t
             WHERE u.number IS NOT NULL AND (v_all OR u.partition = ANY (won))) AS found
         WHERE frames.ctid = found.ctid;
        DELETE FROM frames USING (
            SELECT t.ctid
              FROM unnest(m.trim_partition, m.trim_execution, m.trim_mode, m.trim_before)
                   AS u(partition, execution, mode, before),
                   LATERAL (SELECT f.ctid FROM frames AS f
                             WHERE f.execution = u.execution AND f.mode = u.mode AND f.at < u.before
                            OFFSET 0) AS t
             WHERE u.before IS NOT NULL AND (v_all OR u.partition = ANY (won))) AS found
         WHERE frames.ctid = found.ctid;
    END IF;
    IF m.frame_partition <> '{}' THEN
        INSERT INTO frames (execution, attempt, number, at, kind, mode, bytes)
        SELECT u.execution, u.attempt, u.number, u.at, u.kind, u.mode, u.bytes
          FROM unnest(m.frame_partition, m.frame_execution, m.frame_attempt, m.frame_number, m.frame_at,
                      m.frame_kind, m.frame_mode, m.frame_bytes)
               AS u(partition, execution, attempt, number, at, kind, mode, bytes)
         WHERE v_all OR u.partition = ANY (won);
    END IF;
END
$$;
