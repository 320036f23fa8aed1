-- What commits write of flows and edges. Called by commit_1 alone, whose settings pin these plans too. Rows that may
-- be there already are looked up one by one and reached by their address, as there.
CREATE FUNCTION commit_flows_1(
    won integer[], v_all boolean, fd flows_removed_columns_1, fp flows_columns_1, gd edges_removed_columns_1,
    gp edges_columns_1)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF fd IS NOT NULL THEN
        DELETE FROM flows USING (
            SELECT t.address FROM unnest(fd.partition, fd.id) AS u(partition, id),
                   LATERAL (SELECT f.ctid AS address FROM flows AS f WHERE f.id = u.id LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE flows.ctid = found.address;
    END IF;
    IF fp IS NOT NULL THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(fp.partition, fp.id, fp.created_at, fp.namespace, fp.kind, fp.spec, fp.state, fp.revision,
                          fp.changed_at, fp.remove_at, fp.live)
                   AS u(partition, id, created_at, namespace, kind, spec, state, revision, changed_at, remove_at,
                        live)
                   LEFT JOIN LATERAL (SELECT f.ctid AS address FROM flows AS f WHERE f.id = u.id LIMIT 1) AS t ON true
             WHERE v_all OR u.partition = ANY (won)),
        changed AS (
            UPDATE flows SET state = found.state, revision = found.revision, changed_at = found.changed_at,
                             remove_at = found.remove_at, live = found.live
              FROM found WHERE flows.ctid = found.address)
        INSERT INTO flows (id, partition, created_at, namespace, kind, spec, state, revision, changed_at, remove_at,
                           live)
        SELECT id, partition, created_at, namespace, kind, spec, state, revision, changed_at, remove_at, live
          FROM found WHERE address IS NULL;
    END IF;
    IF gd IS NOT NULL THEN
        DELETE FROM edges USING (
            SELECT t.address
              FROM unnest(gd.partition, gd.upstream, gd.downstream) AS u(partition, upstream, downstream),
                   LATERAL (SELECT e.ctid AS address FROM edges AS e
                             WHERE e.upstream = u.upstream AND e.downstream = u.downstream LIMIT 1) AS t
             WHERE v_all OR u.partition = ANY (won)) AS found
         WHERE edges.ctid = found.address;
    END IF;
    IF gp IS NOT NULL THEN
        WITH found AS MATERIALIZED (
            SELECT u.*, t.address
              FROM unnest(gp.partition, gp.upstream, gp.downstream, gp.flow, gp.number, gp.condition, gp.field,
                          gp.counted, gp.needed, gp.passes, gp.created_at, gp.created_by)
                   AS u(partition, upstream, downstream, flow, number, condition, field, counted, needed, passes,
                        created_at, created_by)
                   LEFT JOIN LATERAL (SELECT e.ctid AS address FROM edges AS e
                                       WHERE e.upstream = u.upstream AND e.downstream = u.downstream LIMIT 1) AS t
                   ON true
             WHERE v_all OR u.partition = ANY (won)),
        changed AS (
            UPDATE edges SET counted = found.counted, needed = found.needed, passes = found.passes
              FROM found WHERE edges.ctid = found.address)
        INSERT INTO edges (upstream, downstream, partition, flow, number, condition, field, counted, needed, passes,
                           created_at, created_by)
        SELECT upstream, downstream, partition, flow, number, condition, field, counted, needed, passes, created_at,
               created_by
          FROM found WHERE address IS NULL;
    END IF;
END
$$;
