-- What commits write of flows and edges. Rows that may be there already are looked up one by one and reached by
-- their address, as in commit_1.
CREATE FUNCTION commit_flows_1(won integer[], rare jsonb) RETURNS void
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
BEGIN
    DELETE FROM flows USING (
        SELECT t.address FROM jsonb_to_recordset(rare -> 'flows') AS u(partition integer, id uuid, live text),
               LATERAL (SELECT f.ctid AS address FROM flows AS f WHERE f.id = u.id LIMIT 1) AS t
         WHERE u.live IS NULL AND u.partition = ANY (won)) AS found
     WHERE flows.ctid = found.address;

    UPDATE flows SET state = found.state, revision = found.revision, changed_at = found.changed_at,
                     remove_at = found.remove_at, live = found.live
      FROM (SELECT u.*, t.address
              FROM jsonb_to_recordset(rare -> 'flows')
                   AS u(partition integer, id uuid, state text, revision bigint, changed_at bigint,
                        remove_at bigint, live text),
                   LATERAL (SELECT f.ctid AS address FROM flows AS f WHERE f.id = u.id LIMIT 1) AS t
             WHERE u.live IS NOT NULL AND u.partition = ANY (won)) AS found
     WHERE flows.ctid = found.address;

    INSERT INTO flows (id, partition, created_at, namespace, kind, spec, state, revision, changed_at, remove_at, live)
    SELECT u.id, u.partition, u.created_at, u.namespace, u.kind, u.spec, u.state, u.revision, u.changed_at,
           u.remove_at, u.live
      FROM jsonb_to_recordset(rare -> 'flows')
           AS u(partition integer, id uuid, created_at bigint, namespace text, kind text, spec text, state text,
                revision bigint, changed_at bigint, remove_at bigint, live text)
     WHERE u.live IS NOT NULL AND u.partition = ANY (won)
       AND NOT EXISTS (SELECT FROM flows AS f WHERE f.id = u.id);

    DELETE FROM edges USING (
        SELECT t.address
          FROM jsonb_to_recordset(rare -> 'edges')
               AS u(partition integer, upstream uuid, downstream uuid, flow uuid),
               LATERAL (SELECT e.ctid AS address FROM edges AS e
                         WHERE e.upstream = u.upstream AND e.downstream = u.downstream LIMIT 1) AS t
         WHERE u.flow IS NULL AND u.partition = ANY (won)) AS found
     WHERE edges.ctid = found.address;

    UPDATE edges SET counted = found.counted, needed = found.needed, passes = found.passes
      FROM (SELECT u.counted, u.needed, u.passes, t.address
              FROM jsonb_to_recordset(rare -> 'edges')
                   AS u(partition integer, upstream uuid, downstream uuid, flow uuid, counted text, needed boolean,
                        passes boolean),
                   LATERAL (SELECT e.ctid AS address FROM edges AS e
                             WHERE e.upstream = u.upstream AND e.downstream = u.downstream LIMIT 1) AS t
             WHERE u.flow IS NOT NULL AND u.partition = ANY (won)) AS found
     WHERE edges.ctid = found.address;

    INSERT INTO edges (upstream, downstream, partition, flow, number, condition, field, counted, needed, passes,
                       created_at, created_by)
    SELECT u.upstream, u.downstream, u.partition, u.flow, u.number, u.condition, u.field, u.counted, u.needed,
           u.passes, u.created_at, u.created_by
      FROM jsonb_to_recordset(rare -> 'edges')
           AS u(partition integer, upstream uuid, downstream uuid, flow uuid, number bigint, condition text,
                field text, counted text, needed boolean, passes boolean, created_at bigint, created_by text)
     WHERE u.flow IS NOT NULL AND u.partition = ANY (won)
       AND NOT EXISTS (SELECT FROM edges AS e WHERE e.upstream = u.upstream AND e.downstream = u.downstream);
END
$$;
