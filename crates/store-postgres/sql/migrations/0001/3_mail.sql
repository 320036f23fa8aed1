-- Answers an ask about a stream or a signing key, in the rows of load_1: the record is in s.
CREATE FUNCTION load_mail_1(p_partition integer, p_place integer, p_ask jsonb)
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
    WHEN 'stream' THEN
        RETURN QUERY
        SELECT 'stream', p_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint, stream_record(x),
               NULL, NULL::bytea
          FROM streams AS x WHERE x.execution = (p_ask ->> 'id')::uuid AND x.partition = p_partition;
    ELSE
        -- One key, or all of them.
        RETURN QUERY
        SELECT 'signing_key', p_place, NULL::uuid, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint,
               signing_key_record(x), NULL, NULL::bytea
          FROM signing_keys AS x
         WHERE x.partition = p_partition AND (p_ask ->> 'id' IS NULL OR x.id = (p_ask ->> 'id')::bigint)
         ORDER BY x.id;
    END CASE;
END
$$;
