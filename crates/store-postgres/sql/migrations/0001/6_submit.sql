-- An execution id: a version-7 UUID with the route in its last two bytes.
CREATE FUNCTION new_id(at_ms bigint, route integer) RETURNS uuid LANGUAGE sql VOLATILE
RETURN encode(
    substr(int8send(at_ms), 3, 6)
    || set_byte(set_byte(substr(uuid_send(gen_random_uuid()), 1, 8), 0,
                         (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112), 2,
                (get_byte(uuid_send(gen_random_uuid()), 0) & 63) | 128)
    || substr(int4send(route), 3, 2), 'hex')::uuid;

-- Submits work inside the caller's own transaction: it exists if and only if that transaction commits. Servers
-- look for it at least every 150 ms. Answers the id of the execution to be. What is wrong with a submission
-- is found when it is taken in: look into flowfabric.dead_letters.
--
--   SELECT flowfabric.submit('charge', '{"order": 17}');
--   SELECT flowfabric.submit('mail', '{"to": "a@b.c"}', lane => 'slow', key => 'welcome-17',
--                            options => '{"priority": 3, "tags": {"team": "growth"}}');
--
-- It runs with the rights of its owner, so an application needs EXECUTE on it and USAGE on the schema, nothing
-- else.
CREATE FUNCTION submit(
    kind text, input jsonb DEFAULT 'null', lane text DEFAULT NULL, key text DEFAULT NULL,
    namespace text DEFAULT NULL, options jsonb DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = flowfabric, pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
#variable_conflict use_variable
DECLARE
    v_partitions integer;
    v_route integer;
    v_id uuid;
    v_now bigint := clock_ms();
    v_digest bytea;
BEGIN
    IF kind IS NULL THEN
        RAISE EXCEPTION 'kind must not be null' USING HINT = 'flowfabric.submit(kind, input): name the kind of work';
    END IF;
    SELECT s.partitions INTO v_partitions FROM store AS s;
    IF key IS NULL THEN
        v_route := floor(random() * 65536)::integer;
    ELSE
        -- The same route for the same key, wherever it is submitted.
        v_digest := sha256(convert_to(coalesce(namespace, 'default'), 'UTF8') || '\x00'::bytea
                           || convert_to(key, 'UTF8'));
        v_route := get_byte(v_digest, 0) * 256 + get_byte(v_digest, 1);
    END IF;
    v_id := new_id(v_now, v_route);
    INSERT INTO inbox (partition, id, posted_at, kind, namespace, lane, key, options, content_type, input)
    VALUES (v_route % v_partitions, v_id, v_now, kind, namespace, lane, key, options::text, 'application/json',
            convert_to(coalesce(input, 'null')::text, 'UTF8'));
    RETURN v_id;
END
$$;
