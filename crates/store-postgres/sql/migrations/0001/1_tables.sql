-- Everything a FlowFabric store keeps. Times are milliseconds since 1970; views.sql shows them as timestamps.
--
-- Two rules keep the cost of a commit the same however much is stored and however long a transaction of
-- somebody else holds vacuum back: a table that is written for each piece of work has no more indexes than
-- questions that are asked, none of them on a column that changes; and nothing is updated once per commit,
-- because each update of one row leaves a dead one that every later reader has to step over.

-- What this store is. One row.
CREATE TABLE store (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    id         uuid    NOT NULL,
    partitions integer NOT NULL CHECK (partitions BETWEEN 1 AND 65535)
);

-- The commit log. A partition's version is its newest row; to commit is to insert the next one, and two who
-- insert the same cannot both succeed. The partition's header rides in it.
CREATE TABLE commits (
    partition   integer NOT NULL,
    number      bigint  NOT NULL,
    at_ms       bigint  NOT NULL,
    next_event  bigint  NOT NULL,
    sweep_at    bigint,
    now_ms      bigint  NOT NULL,
    -- When the first agenda entry is due, as the one who committed knew it.
    next_due    bigint,
    id          uuid    NOT NULL,
    previous_id uuid    NOT NULL,
    -- What it changed, for servers that were not there: ids of executions end to end, those that have ended apart
    -- from the others, and other keys as JSON.
    executions  bytea,
    ended       bytea,
    others      text,
    PRIMARY KEY (partition, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
ALTER TABLE commits ALTER executions SET STORAGE EXTERNAL, ALTER ended SET STORAGE EXTERNAL;

-- A server's wish to be let through once: until then the commits of others are refused. Nearly always empty.
CREATE TABLE turns (
    partition integer PRIMARY KEY,
    server    uuid    NOT NULL,
    until_ms  bigint  NOT NULL
);

-- One row per execution, written once and rewritten two or three times in its life: there is room in its
-- page for all of them to be rewritten at once, what never changes comes first, and no index sees a column that
-- changes.
CREATE TABLE executions (
    id         uuid    PRIMARY KEY,
    partition  integer NOT NULL,
    created_at bigint  NOT NULL,
    namespace  text    COLLATE "C" NOT NULL,
    lane       text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,
    -- The flow it is a member of, and its number there.
    flow       uuid,
    member     bigint,
    -- What was asked for.
    spec       text    NOT NULL,
    changed_at bigint  NOT NULL,
    state      text    COLLATE "C" NOT NULL CHECK (state IN (
        'waiting', 'active', 'completed', 'delayed', 'failed', 'cancelled', 'expired', 'skipped', 'suspended',
        'waiting_children', 'rate_limited')),
    reason     text    COLLATE "C" NOT NULL CHECK (reason IN (
        'waiting_for_worker', 'running', 'succeeded', 'retry_backoff', 'waiting_for_delay',
        'paused_by_operator', 'resume_delay', 'cancel_requested', 'attempts_exhausted', 'fatal_error',
        'crash_loop', 'retry_time_exhausted', 'cancelled_by_request', 'deadline_passed',
        'schedule_to_start_passed', 'lease_lost', 'waiting_for_dependencies', 'hedge', 'sibling_quorum_satisfied',
        'sibling_quorum_impossible', 'flow_cancelled', 'dependencies_impossible', 'child_flow',
        'child_flow_failed', 'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback',
        'waiting_for_tool_result', 'waiting_for_child', 'operator_review', 'suspension_timed_out', 'parent_ended')),
    -- What changes while it lives.
    live       text    NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX executions_of_flow ON executions (flow, member) WHERE flow IS NOT NULL;

-- Who holds which execution.
CREATE TABLE leases (
    partition integer NOT NULL,
    execution uuid    NOT NULL,
    instance  uuid    NOT NULL,
    PRIMARY KEY (partition, execution)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE ready (
    partition integer NOT NULL,
    rank      bigint  NOT NULL,
    number    bigint  NOT NULL,
    execution uuid    NOT NULL,
    lane      text    COLLATE "C" NOT NULL,
    class     text    COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, lane, class, rank, number)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- The subject of a message is the partition it goes to (first 8 bytes) and its number (last 8).
CREATE TABLE agenda (
    partition integer NOT NULL,
    due       bigint  NOT NULL,
    subject   uuid    NOT NULL,
    kind      text    COLLATE "C" NOT NULL CHECK (kind IN (
        'timer', 'worker_timer', 'worker_leases', 'sweep', 'cascade', 'members', 'children', 'frames', 'deliver')),
    message   text,
    PRIMARY KEY (partition, due, subject, kind)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Ended executions in the order in which retention removes them.
CREATE TABLE ended (
    partition integer NOT NULL,
    remove_at bigint  NOT NULL,
    execution uuid    NOT NULL,
    PRIMARY KEY (partition, remove_at, execution)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE payloads (
    execution    uuid  NOT NULL,
    slot         text  COLLATE "C" NOT NULL CHECK (slot IN ('input', 'result')),
    content_type text  NOT NULL,
    bytes        bytea NOT NULL,
    PRIMARY KEY (execution, slot)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE attempts (
    execution uuid    NOT NULL,
    number    bigint  NOT NULL,
    record    text    NOT NULL,
    PRIMARY KEY (execution, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE dedup (
    partition  integer NOT NULL,
    execution  uuid    NOT NULL,
    expires_at bigint  NOT NULL,
    namespace  text    COLLATE "C" NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, namespace, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX dedup_by_expiry ON dedup (partition, expires_at, namespace, key);

CREATE TABLE lanes (
    partition integer NOT NULL,
    name      text    COLLATE "C" NOT NULL,
    mode      text    COLLATE "C" NOT NULL CHECK (mode IN ('open', 'paused', 'draining')),
    record    text    NOT NULL,
    PRIMARY KEY (partition, name)
);

CREATE TABLE workers (
    partition integer NOT NULL,
    instance  uuid    NOT NULL,
    name      text    COLLATE "C" NOT NULL,
    mode      text    COLLATE "C" NOT NULL CHECK (mode IN ('active', 'draining', 'dead')),
    record    text    NOT NULL,
    PRIMARY KEY (partition, instance)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

CREATE TABLE links (
    partition integer NOT NULL,
    peer      integer NOT NULL,
    sent      bigint  NOT NULL,
    received  bigint  NOT NULL,
    PRIMARY KEY (partition, peer)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

-- Counters. Each commit that changes one adds a row with its new total under the commit's number and removes
-- the row before; the newest row counts. Index order: newest first, so a reader meets no dead row.
CREATE TABLE counts (
    partition integer NOT NULL,
    number    bigint  NOT NULL,
    n         bigint  NOT NULL,
    namespace text    COLLATE "C" NOT NULL,
    lane      text    COLLATE "C" NOT NULL,
    kind      text    COLLATE "C" NOT NULL,
    state     text    COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX counts_newest_first ON counts (partition, namespace, lane, kind, state, number DESC);

CREATE TABLE ready_counts (
    partition integer NOT NULL,
    number    bigint  NOT NULL,
    n         bigint  NOT NULL,
    lane      text    COLLATE "C" NOT NULL,
    class     text    COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX ready_counts_newest_first ON ready_counts (partition, lane, class, number DESC);

-- Events are packed: a row holds the events `first` to `last` of one commit as a JSON array, the newest of
-- them from `at`. The view events_one_by_one shows them singly.
CREATE TABLE events (
    partition integer NOT NULL,
    first     bigint  NOT NULL,
    last      bigint  NOT NULL,
    at        bigint  NOT NULL,
    body      text    NOT NULL,
    PRIMARY KEY (partition, first)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);

-- Submissions that applications made in transactions of their own, until a server takes them in. Use the
-- function flowfabric.submit, which fills in id and partition.
CREATE TABLE inbox (
    partition    integer NOT NULL,
    number       bigint  GENERATED ALWAYS AS IDENTITY,
    id           uuid    NOT NULL,
    posted_at    bigint  NOT NULL,
    kind         text    NOT NULL,
    namespace    text,
    lane         text,
    key          text,
    options      text,
    content_type text    NOT NULL,
    input        bytea   NOT NULL,
    PRIMARY KEY (partition, number)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Submissions that were wrong, and why.
CREATE TABLE dead_letters (
    partition    integer NOT NULL,
    number       bigint  NOT NULL,
    id           uuid    NOT NULL,
    posted_at    bigint  NOT NULL,
    kind         text    NOT NULL,
    namespace    text,
    lane         text,
    key          text,
    options      text,
    content_type text    NOT NULL,
    input        bytea   NOT NULL,
    reason       text    NOT NULL,
    at           bigint  NOT NULL,
    PRIMARY KEY (partition, number)
);

-- Processes that serve this store, and when each last said so. Nothing correct depends on it: it only lets
-- servers prefer different partitions.
CREATE TABLE servers (
    name       text   COLLATE "C" PRIMARY KEY,
    entered_at bigint NOT NULL,
    seen_at    bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- Packs of events are large and alike; the quick compression, where the server was built with it.
DO $$
BEGIN
    ALTER TABLE flowfabric.events ALTER body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END
$$;
