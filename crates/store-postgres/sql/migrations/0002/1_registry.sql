-- Records that servers read and no rule about executions does, each as a JSON body. Bodies have secrets in them.
CREATE TABLE registry (
    partition integer NOT NULL,
    kind      text    COLLATE "C" NOT NULL,
    id        text    COLLATE "C" NOT NULL,
    body      text    NOT NULL,
    PRIMARY KEY (partition, kind, id)
);

-- Writes what commits say of the registry, where they have won. Called in one statement with commit_1, only if there
-- is anything to write: commits that have nothing to do with the registry pay nothing for it.
CREATE FUNCTION commit_registry_1(won integer[], p_records text) RETURNS void
LANGUAGE plpgsql
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    r record;
BEGIN
    FOR r IN SELECT * FROM jsonb_to_recordset(p_records::jsonb)
                      AS u(partition integer, kind text, id text, body text)
              WHERE u.partition = ANY (won) LOOP
        IF r.body IS NULL THEN
            DELETE FROM registry AS x WHERE x.partition = r.partition AND x.kind = r.kind AND x.id = r.id;
        ELSE
            INSERT INTO registry (partition, kind, id, body) VALUES (r.partition, r.kind, r.id, r.body)
            ON CONFLICT (partition, kind, id) DO UPDATE SET body = excluded.body;
        END IF;
    END LOOP;
END
$$;

-- Answers asks about the registry, in the rows of load_1: the body is in s. Called in one statement with load_1, so
-- that all asks are answered at one version.
CREATE FUNCTION load_registry_1(p_partition integer, p_asks text)
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
DECLARE
    v_ask jsonb;
BEGIN
    FOR v_ask IN SELECT * FROM jsonb_array_elements(p_asks::jsonb) LOOP
        RETURN QUERY
        SELECT 'record', (v_ask ->> 'ask')::integer, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint,
               NULL::bigint, x.body, NULL, NULL::bytea
          FROM registry AS x
         WHERE x.partition = p_partition AND x.kind = v_ask ->> 'kind'
           AND (v_ask ->> 'id' IS NULL OR x.id = v_ask ->> 'id')
         ORDER BY x.id;
    END LOOP;
END
$$;
