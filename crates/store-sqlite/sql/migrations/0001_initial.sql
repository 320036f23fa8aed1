-- Everything a FlowFabric store keeps. Tables that are written once per row of work have no more indexes
-- than questions that are asked. Ids are 16-byte blobs; the views at the end show them as text.

-- What this file is. One row.
CREATE TABLE store (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    id         BLOB    NOT NULL CHECK (length(id) = 16),
    partitions INTEGER NOT NULL CHECK (partitions BETWEEN 1 AND 65535)
) STRICT;

-- The commit log. A partition's version is its newest row; the partition's header rides in it.
CREATE TABLE commits (
    partition   INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    id          BLOB    NOT NULL CHECK (length(id) = 16),
    previous_id BLOB    NOT NULL CHECK (length(previous_id) = 16),
    at_ms       INTEGER NOT NULL,
    next_event  INTEGER NOT NULL,
    sweep_at    INTEGER,
    now         INTEGER NOT NULL,
    -- What it changed, for servers that were not there: ids of executions, 16 bytes each, and other keys as JSON.
    executions  BLOB,
    others      TEXT,
    PRIMARY KEY (partition, number)
) STRICT, WITHOUT ROWID;

-- A row is wide and rewritten twice or more in its life. With a rowid the pages inside the tree stay narrow.
-- The checks are chains of comparisons because a list after IN is built anew for each row.
CREATE TABLE executions (
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    partition  INTEGER NOT NULL,
    namespace  TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (
        state = 'waiting' OR state = 'active' OR state = 'completed' OR state = 'delayed'
        OR state = 'failed' OR state = 'cancelled' OR state = 'expired' OR state = 'skipped'
        OR state = 'suspended' OR state = 'waiting_children' OR state = 'rate_limited'),
    reason     TEXT    NOT NULL CHECK (
        reason = 'waiting_for_worker' OR reason = 'running' OR reason = 'succeeded'
        OR reason = 'retry_backoff' OR reason = 'waiting_for_delay' OR reason = 'paused_by_operator'
        OR reason = 'resume_delay' OR reason = 'cancel_requested' OR reason = 'attempts_exhausted'
        OR reason = 'fatal_error' OR reason = 'crash_loop' OR reason = 'retry_time_exhausted'
        OR reason = 'cancelled_by_request' OR reason = 'deadline_passed'
        OR reason = 'schedule_to_start_passed' OR reason = 'lease_lost' OR reason = 'waiting_for_dependencies'
        OR reason = 'hedge' OR reason = 'sibling_quorum_satisfied' OR reason = 'sibling_quorum_impossible'
        OR reason = 'flow_cancelled' OR reason = 'dependencies_impossible'
        OR reason = 'child_flow' OR reason = 'child_flow_failed' OR reason = 'waiting_for_signal'
        OR reason = 'waiting_for_approval' OR reason = 'waiting_for_callback' OR reason = 'waiting_for_tool_result'
        OR reason = 'waiting_for_child' OR reason = 'operator_review' OR reason = 'suspension_timed_out'
        OR reason = 'parent_ended'),
    changed_at INTEGER NOT NULL,
    -- The instance that has the lease, while there is one.
    holder     BLOB             CHECK (length(holder) = 16),
    -- The flow it is a member of, and its number there.
    flow       BLOB             CHECK (length(flow) = 16),
    member     INTEGER,
    -- What was asked for, written once; what changes while it lives.
    spec       TEXT    NOT NULL,
    live       TEXT    NOT NULL
) STRICT;

CREATE INDEX executions_of_flow ON executions (flow, member) WHERE flow IS NOT NULL;
CREATE INDEX executions_leased ON executions (partition, holder, id) WHERE holder IS NOT NULL;

CREATE TABLE ready (
    partition INTEGER NOT NULL,
    lane      TEXT    NOT NULL,
    class     TEXT    NOT NULL,
    rank      INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    execution BLOB    NOT NULL,
    PRIMARY KEY (partition, lane, class, rank, number)
) STRICT, WITHOUT ROWID;

-- The subject is a 16-byte id or a text, as its kind asks for; agenda_view shows both as text.
CREATE TABLE agenda (
    partition INTEGER NOT NULL,
    due       INTEGER NOT NULL,
    kind      TEXT    NOT NULL CHECK (
        kind = 'timer' OR kind = 'worker_timer' OR kind = 'worker_leases' OR kind = 'sweep' OR kind = 'deliver'
        OR kind = 'cascade' OR kind = 'members' OR kind = 'children' OR kind = 'frames'),
    subject   ANY     NOT NULL,
    message   TEXT,
    PRIMARY KEY (partition, due, kind, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE ended (
    partition INTEGER NOT NULL,
    remove_at INTEGER NOT NULL,
    execution BLOB    NOT NULL,
    PRIMARY KEY (partition, remove_at, execution)
) STRICT, WITHOUT ROWID;

CREATE TABLE payloads (
    execution    BLOB NOT NULL,
    slot         TEXT NOT NULL CHECK (slot = 'input' OR slot = 'result'),
    content_type TEXT NOT NULL,
    bytes        BLOB NOT NULL,
    PRIMARY KEY (execution, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    execution BLOB    NOT NULL,
    number    INTEGER NOT NULL,
    record    TEXT    NOT NULL,
    PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE dedup (
    partition  INTEGER NOT NULL,
    namespace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    execution  BLOB    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (partition, namespace, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX dedup_by_expiry ON dedup (partition, expires_at);

CREATE TABLE lanes (
    partition INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    mode      TEXT    NOT NULL CHECK (mode = 'open' OR mode = 'paused' OR mode = 'draining'),
    record    TEXT    NOT NULL,
    PRIMARY KEY (partition, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    partition INTEGER NOT NULL,
    instance  BLOB    NOT NULL,
    name      TEXT    NOT NULL,
    mode      TEXT    NOT NULL CHECK (mode = 'active' OR mode = 'draining' OR mode = 'dead'),
    record    TEXT    NOT NULL,
    PRIMARY KEY (partition, instance)
) STRICT, WITHOUT ROWID;

CREATE TABLE links (
    partition INTEGER NOT NULL,
    peer      INTEGER NOT NULL,
    sent      INTEGER NOT NULL,
    received  INTEGER NOT NULL,
    PRIMARY KEY (partition, peer)
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
    partition INTEGER NOT NULL,
    namespace TEXT    NOT NULL,
    lane      TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (partition, namespace, lane, kind, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE ready_counts (
    partition INTEGER NOT NULL,
    lane      TEXT    NOT NULL,
    class     TEXT    NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (partition, lane, class)
) STRICT, WITHOUT ROWID;

-- Events are packed: a row holds the events `first` to `last` of one commit as a JSON array, the newest of
-- them from `at`. events_view shows them one by one.
CREATE TABLE events (
    partition INTEGER NOT NULL,
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    body      TEXT    NOT NULL,
    UNIQUE (partition, first)
) STRICT;

-- Whose turn a partition is: until its holder has committed there or the time is over, others conflict.
CREATE TABLE turns (
    partition INTEGER PRIMARY KEY,
    server    BLOB    NOT NULL CHECK (length(server) = 16),
    until     INTEGER NOT NULL
) STRICT;

-- Processes that serve this file. A lock in the folder beside it says which of them live.
CREATE TABLE servers (
    name       TEXT    PRIMARY KEY,
    entered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- ---- for people ---------------------------------------------------------------------------------------

CREATE VIEW executions_view AS
SELECT lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4)
             || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) AS id,
       partition, namespace, lane, kind, state, reason,
       strftime('%Y-%m-%d %H:%M:%f', created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%d %H:%M:%f', changed_at / 1000.0, 'unixepoch') AS changed_at,
       json_extract(live, '$.state.worker') AS worker,
       json_extract(live, '$.attempt.number') AS attempt,
       spec, live
  FROM executions;

CREATE VIEW commits_view AS
SELECT partition, number,
       lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4)
             || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) AS id,
       strftime('%Y-%m-%d %H:%M:%f', at_ms / 1000.0, 'unixepoch') AS at,
       next_event, sweep_at, now, coalesce(length(executions) / 16, 0) AS executions, others
  FROM commits;

CREATE VIEW ready_view AS
SELECT partition, lane, class, rank, number,
       lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution
  FROM ready;

CREATE VIEW agenda_view AS
SELECT partition, due, strftime('%Y-%m-%d %H:%M:%f', due / 1000.0, 'unixepoch') AS due_at, kind,
       CASE typeof(subject)
            WHEN 'blob' THEN lower(substr(hex(subject), 1, 8) || '-' || substr(hex(subject), 9, 4) || '-'
                                   || substr(hex(subject), 13, 4) || '-' || substr(hex(subject), 17, 4)
                                   || '-' || substr(hex(subject), 21))
            ELSE subject END AS subject,
       message
  FROM agenda;

CREATE VIEW ended_view AS
SELECT partition, strftime('%Y-%m-%d %H:%M:%f', remove_at / 1000.0, 'unixepoch') AS remove_at,
       lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution
  FROM ended;

CREATE VIEW payloads_view AS
SELECT lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution,
       slot, content_type, length(bytes) AS bytes,
       CASE content_type WHEN 'application/json' THEN CAST(bytes AS TEXT) END AS json
  FROM payloads;

CREATE VIEW events_view AS
SELECT events.partition,
       json_extract(event.value, '$.number') AS number,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(event.value, '$.at') / 1000.0, 'unixepoch') AS at,
       json_extract(event.value, '$.event') AS event,
       json_extract(event.value, '$.execution') AS execution,
       json_extract(event.value, '$.namespace') AS namespace,
       json_extract(event.value, '$.lane') AS lane,
       event.value AS body
  FROM events, json_each(events.body) AS event;
