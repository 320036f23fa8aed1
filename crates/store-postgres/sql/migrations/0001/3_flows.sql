-- Answers an ask about a flow, an edge or a list of a graph, in the rows of load_1. In a list each row has the
-- number (i), where it leads (a), the execution there (s, t) and the edge (y, as text).
CREATE FUNCTION load_graph_1(p_partition integer, p_place integer, p_ask jsonb)
RETURNS TABLE (tag text, ask integer, a uuid, b uuid, i bigint, j bigint, k bigint, s text, t text, y bytea)
LANGUAGE plpgsql STABLE
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    CASE p_ask ->> 'is'
    WHEN 'flow' THEN
        RETURN QUERY
        SELECT 'flow', p_place, f.id, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, f.spec, f.live, NULL::bytea
          FROM flows AS f WHERE f.id = (p_ask ->> 'id')::uuid AND f.partition = p_partition;
    WHEN 'edge' THEN
        RETURN QUERY
        SELECT 'edge', p_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, edge_record(e), NULL,
               NULL::bytea
          FROM edges AS e
         WHERE e.upstream = (p_ask ->> 'upstream')::uuid AND e.downstream = (p_ask ->> 'downstream')::uuid
           AND e.partition = p_partition;
    WHEN 'members' THEN
        RETURN QUERY
        SELECT 'entry', p_place, e.id, NULL::uuid, e.member, NULL::bigint, NULL::bigint, e.spec, e.live, NULL::bytea
          FROM executions AS e
         WHERE e.flow = (p_ask ->> 'id')::uuid AND e.member > (p_ask ->> 'after')::bigint
           AND e.partition = p_partition
         ORDER BY e.flow, e.member LIMIT (p_ask ->> 'limit')::bigint;
    WHEN 'downstream' THEN
        RETURN QUERY
        SELECT 'entry', p_place, l.downstream, NULL::uuid, l.number, NULL::bigint, NULL::bigint, x.spec, x.live,
               convert_to(l.record, 'UTF8')
          FROM (SELECT e.downstream, e.number, edge_record(e) AS record FROM edges AS e
                 WHERE e.upstream = (p_ask ->> 'id')::uuid AND e.number > (p_ask ->> 'after')::bigint
                   AND e.partition = p_partition
                 ORDER BY e.upstream, e.number LIMIT (p_ask ->> 'limit')::bigint) AS l
               LEFT JOIN LATERAL (SELECT x.spec, x.live FROM executions AS x WHERE x.id = l.downstream LIMIT 1) AS x
               ON true
         ORDER BY l.number;
    ELSE
        RETURN QUERY
        SELECT 'entry', p_place, l.upstream, NULL::uuid, l.number, NULL::bigint, NULL::bigint, x.spec, x.live,
               convert_to(l.record, 'UTF8')
          FROM (SELECT e.upstream, e.number, edge_record(e) AS record FROM edges AS e
                 WHERE e.downstream = (p_ask ->> 'id')::uuid AND e.number > (p_ask ->> 'after')::bigint
                   AND e.partition = p_partition
                 ORDER BY e.downstream, e.number LIMIT (p_ask ->> 'limit')::bigint) AS l
               LEFT JOIN LATERAL (SELECT x.spec, x.live FROM executions AS x WHERE x.id = l.upstream LIMIT 1) AS x
               ON true
         ORDER BY l.number;
    END CASE;
END
$$;
