-- Flows and the edges between their members. Who is a member of which flow stands with the executions.

CREATE TABLE flows (
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    partition  INTEGER NOT NULL,
    namespace  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (
        state = 'open' OR state = 'running' OR state = 'blocked' OR state = 'completed' OR state = 'failed'
        OR state = 'cancelled'),
    revision   INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    -- When retention may remove it with its members, once it has ended.
    remove_at  INTEGER,
    -- What was asked for, written once; what changes while it lives.
    spec       TEXT    NOT NULL,
    live       TEXT    NOT NULL
) STRICT;

CREATE INDEX flows_by_removal ON flows (partition, remove_at, id) WHERE remove_at IS NOT NULL;

CREATE TABLE edges (
    upstream   BLOB    NOT NULL CHECK (length(upstream) = 16),
    downstream BLOB    NOT NULL CHECK (length(downstream) = 16),
    partition  INTEGER NOT NULL,
    flow       BLOB    NOT NULL CHECK (length(flow) = 16),
    number     INTEGER NOT NULL,
    condition  TEXT    NOT NULL CHECK (condition = 'success' OR condition = 'failure' OR condition = 'always'),
    -- Under which name the downstream's input gets the upstream's result.
    field      TEXT,
    -- How the end of the upstream has been counted in the downstream's group.
    counted    TEXT             CHECK (
        counted = 'success' OR counted = 'failure' OR counted = 'loser' OR counted = 'skip'),
    -- Whether the downstream is counted among those that still need the upstream.
    needed     INTEGER NOT NULL CHECK (needed = 0 OR needed = 1),
    -- Whether the upstream's result goes into the downstream's input.
    passes     INTEGER NOT NULL CHECK (passes = 0 OR passes = 1),
    created_at INTEGER NOT NULL,
    created_by TEXT    NOT NULL,
    PRIMARY KEY (upstream, downstream),
    CHECK (upstream <> downstream)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_to_downstreams ON edges (upstream, number);
CREATE INDEX edges_from_upstreams ON edges (downstream, number);
