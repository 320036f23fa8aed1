-- For people.

CREATE FUNCTION as_time(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(ms / 1000.0);

CREATE VIEW executions_view AS
SELECT id, partition, namespace, lane, kind, state, reason, as_time(created_at) AS created_at,
       as_time(changed_at) AS changed_at, live::jsonb #>> '{attempt,worker}' AS worker,
       (live::jsonb #>> '{attempt,number}')::integer AS attempt, coalesce((live::jsonb ->> 'priority')::integer, 0) AS priority,
       live::jsonb -> 'tags' AS tags, spec::jsonb AS spec, live::jsonb AS live
  FROM executions;

-- The newest attempt is part of the execution; older ones were archived when it began.
CREATE VIEW attempts_view AS
SELECT a.execution, a.number, a.record::jsonb ->> 'worker' AS worker,
       as_time((a.record::jsonb ->> 'started_at')::bigint) AS started_at,
       a.record::jsonb #>> '{end,outcome}' AS outcome, a.record::jsonb AS record
  FROM attempts AS a
UNION ALL
SELECT e.id, (e.live::jsonb #>> '{attempt,number}')::bigint, e.live::jsonb #>> '{attempt,worker}',
       as_time((e.live::jsonb #>> '{attempt,started_at}')::bigint), e.live::jsonb #>> '{attempt,end,outcome}',
       e.live::jsonb -> 'attempt'
  FROM executions AS e WHERE e.live::jsonb -> 'attempt' IS NOT NULL;

CREATE VIEW events_view AS
SELECT e.partition, (one.body ->> 'number')::bigint AS number, as_time((one.body ->> 'at')::bigint) AS at,
       one.body ->> 'event' AS event, (one.body ->> 'execution')::uuid AS execution,
       one.body ->> 'namespace' AS namespace, one.body ->> 'lane' AS lane, one.body AS body
  FROM events AS e, jsonb_array_elements(e.body::jsonb) AS one(body);

-- Each lane has a copy in every partition; all are the same but for a moment after a change.
CREATE VIEW lanes_view AS
SELECT DISTINCT ON (name) name, mode, record::jsonb AS record FROM lanes ORDER BY name, partition;

CREATE VIEW workers_view AS
SELECT DISTINCT ON (instance) instance, name, mode, record::jsonb AS record
  FROM workers ORDER BY instance, partition;

CREATE VIEW leases_view AS
SELECT l.execution, l.instance, e.live::jsonb #>> '{state,worker}' AS worker, e.kind, e.lane,
       (e.live::jsonb #>> '{attempt,number}')::integer AS attempt, (e.live::jsonb ->> 'epoch')::bigint AS epoch,
       as_time((e.live::jsonb #>> '{state,acquired_at}')::bigint) AS acquired_at,
       as_time((e.live::jsonb #>> '{state,expires_at}')::bigint) AS expires_at
  FROM leases AS l JOIN executions AS e ON e.id = l.execution;

CREATE VIEW agenda_view AS
SELECT partition, as_time(due) AS due, kind,
       CASE kind WHEN 'sweep' THEN NULL
                 WHEN 'deliver' THEN ('x' || left(replace(subject::text, '-', ''), 16))::bit(64)::bigint || '/'
                                     || ('x' || right(replace(subject::text, '-', ''), 16))::bit(64)::bigint
                 ELSE subject::text END AS subject,
       message::jsonb AS message
  FROM agenda;

CREATE VIEW payloads_view AS
SELECT execution, slot, content_type, octet_length(bytes) AS bytes,
       CASE WHEN content_type = 'application/json' THEN convert_from(bytes, 'UTF8') END AS json
  FROM payloads;

-- The inbox of people: what they are waited for.
CREATE VIEW waitpoints_view AS
SELECT w.execution::text || '-' || w.number AS waitpoint, w.namespace, w.lane, w.kind, w.name, w.reason,
       as_time(w.opened_at) AS opened_at, as_time(w.expires_at) AS expires_at, encode(w.digest, 'hex') AS digest
  FROM waitpoints AS w;

CREATE VIEW signals_view AS
SELECT execution, number, as_time(at) AS at, name, waitpoint, source, correlation, content_type,
       octet_length(bytes) AS bytes,
       CASE WHEN content_type = 'application/json' THEN convert_from(bytes, 'UTF8') END AS json
  FROM signals;

CREATE VIEW steps_view AS
SELECT execution, number, name, occurrence, kind, attempt, as_time(started_at) AS started_at,
       as_time(ended_at) AS ended_at, content_type, octet_length(bytes) AS bytes,
       CASE WHEN content_type = 'application/json' THEN convert_from(bytes, 'UTF8') END AS json
  FROM steps;

CREATE VIEW frames_view AS
SELECT execution, attempt, number, as_time(at) AS at, kind, mode, octet_length(bytes) AS bytes,
       encode(bytes, 'escape') AS text
  FROM frames;

CREATE VIEW commits_view AS
SELECT partition, number, id, as_time(at_ms) AS at, next_event, as_time(sweep_at) AS sweep_at,
       coalesce(octet_length(executions) / 16, 0) AS executions, others
  FROM commits;

CREATE VIEW dead_letters_view AS
SELECT number, id, as_time(posted_at) AS posted_at, as_time(at) AS dead_at, reason, kind, namespace, lane, key,
       convert_from(input, 'UTF8') AS input, options
  FROM dead_letters;
