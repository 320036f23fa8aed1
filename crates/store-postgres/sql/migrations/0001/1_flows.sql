-- Flows and the edges between their members. Who is a member of which flow stands with the executions.

-- One row per flow, rewritten with each move of a member: there is room in its page for that. Its index sees only
-- when an ended flow may be removed, which changes once.
CREATE TABLE flows (
    id         uuid    PRIMARY KEY,
    partition  integer NOT NULL,
    created_at bigint  NOT NULL,
    namespace  text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,
    -- What was asked for.
    spec       text    NOT NULL,
    state      text    COLLATE "C" NOT NULL CHECK (state IN (
        'running', 'open', 'blocked', 'completed', 'failed', 'cancelled')),
    revision   bigint  NOT NULL,
    changed_at bigint  NOT NULL,
    remove_at  bigint,
    -- What changes while it lives.
    live       text    NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flows_by_removal ON flows (partition, remove_at, id) WHERE remove_at IS NOT NULL;

CREATE TABLE edges (
    upstream   uuid    NOT NULL,
    downstream uuid    NOT NULL,
    partition  integer NOT NULL,
    flow       uuid    NOT NULL,
    number     bigint  NOT NULL,
    condition  text    COLLATE "C" NOT NULL CHECK (condition IN ('success', 'failure', 'always')),
    -- Under which name the downstream's input gets the upstream's result.
    field      text,
    -- How the end of the upstream has been counted in the downstream's group.
    counted    text    COLLATE "C" CHECK (counted IN ('success', 'failure', 'loser', 'skip')),
    -- Whether the downstream is counted among those that still need the upstream.
    needed     boolean NOT NULL,
    -- Whether the upstream's result goes into the downstream's input.
    passes     boolean NOT NULL,
    created_at bigint  NOT NULL,
    created_by text    NOT NULL,
    PRIMARY KEY (upstream, downstream),
    CHECK (upstream <> downstream)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX edges_to_downstreams ON edges (upstream, number);
CREATE INDEX edges_from_upstreams ON edges (downstream, number);

-- An edge as a record.
CREATE FUNCTION edge_record(e edges) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
SELECT json_build_object(
    'upstream', e.upstream, 'downstream', e.downstream, 'flow', e.flow, 'number', e.number, 'on', e.condition,
    'field', e.field, 'counted', e.counted, 'needed', e.needed, 'passes', e.passes, 'created_at', e.created_at,
    'created_by', e.created_by)::text
$$;
