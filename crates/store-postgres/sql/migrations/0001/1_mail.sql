-- What arrives for executions and what they leave behind while they run. What an execution waits for stands in
-- its record.

-- Keys that the tokens of waitpoints are signed with. Whoever reads them can make tokens.
CREATE TABLE signing_keys (
    partition  integer NOT NULL,
    id         bigint  NOT NULL CHECK (id > 0),
    secret     bytea   NOT NULL CHECK (octet_length(secret) = 32),
    created_at bigint  NOT NULL,
    -- From when on tokens signed with it are refused.
    retires_at bigint,
    revision   bigint  NOT NULL,
    PRIMARY KEY (partition, id)
);

-- Open waitpoints, with what people search by.
CREATE TABLE waitpoints (
    execution  uuid    NOT NULL,
    number     bigint  NOT NULL,
    opened_at  bigint  NOT NULL,
    expires_at bigint,
    partition  integer NOT NULL,
    namespace  text    COLLATE "C" NOT NULL,
    lane       text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,
    name       text    COLLATE "C",
    -- Why its execution is suspended, while it is.
    reason     text    COLLATE "C",
    -- SHA-256 of the action that is proposed.
    digest     bytea   CHECK (octet_length(digest) = 32),
    PRIMARY KEY (execution, number)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE signals (
    execution    uuid   NOT NULL,
    number       bigint NOT NULL,
    at           bigint NOT NULL,
    -- The number of the waitpoint it came through.
    waitpoint    bigint,
    name         text,
    source       text,
    correlation  text,
    content_type text   NOT NULL,
    bytes        bytea  NOT NULL,
    PRIMARY KEY (execution, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

CREATE TABLE steps (
    execution    uuid   NOT NULL,
    -- How many steps of that name were called before it.
    occurrence   bigint NOT NULL,
    -- Its place in the order in which steps were recorded.
    number       bigint NOT NULL,
    attempt      bigint NOT NULL,
    started_at   bigint NOT NULL,
    ended_at     bigint NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    kind         text   COLLATE "C" NOT NULL CHECK (kind IN ('run', 'wait', 'sleep', 'waitpoint', 'child')),
    content_type text   NOT NULL,
    bytes        bytea  NOT NULL,
    PRIMARY KEY (execution, name, occurrence)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

-- The output stream of the newest attempt that appended anything. Rewritten with each append: there is room in
-- its page for that.
CREATE TABLE streams (
    execution       uuid    PRIMARY KEY,
    partition       integer NOT NULL,
    attempt         bigint  NOT NULL,
    -- The number of the next frame, and of the oldest that may be kept.
    next            bigint  NOT NULL,
    first           bigint  NOT NULL,
    durable_at      bigint,
    best_effort_at  bigint,
    trim_at         bigint,
    -- The document that summary frames are merged into, and how often it was changed.
    summary_version bigint,
    summary         text,
    CHECK ((summary IS NULL) = (summary_version IS NULL))
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE frames (
    execution uuid   NOT NULL,
    attempt   bigint NOT NULL,
    number    bigint NOT NULL,
    at        bigint NOT NULL,
    kind      text   NOT NULL,
    mode      text   COLLATE "C" NOT NULL CHECK (mode IN ('durable', 'summary', 'best_effort')),
    bytes     bytea  NOT NULL,
    PRIMARY KEY (execution, attempt, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_vacuum_cost_delay = 0);

-- A stream and a key as records.
CREATE FUNCTION stream_record(s streams) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
SELECT json_build_object(
    'execution', s.execution, 'attempt', s.attempt, 'next', s.next, 'first', s.first,
    'summary', CASE WHEN s.summary IS NOT NULL
                    THEN json_build_object('version', s.summary_version, 'document', s.summary::json) END,
    'durable_at', s.durable_at, 'best_effort_at', s.best_effort_at, 'trim_at', s.trim_at)::text
$$;

CREATE FUNCTION signing_key_record(k signing_keys) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
SELECT json_build_object(
    'id', k.id, 'secret', encode(k.secret, 'hex'), 'created_at', k.created_at, 'retires_at', k.retires_at,
    'revision', k.revision)::text
$$;
