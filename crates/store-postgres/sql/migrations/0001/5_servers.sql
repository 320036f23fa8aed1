-- Asks for the turn in a partition: whether it is this server's now.
CREATE FUNCTION turn_1(p_now bigint, p_partition integer, p_server uuid, p_for bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path = flowfabric, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_now bigint := coalesce(p_now, clock_ms());
BEGIN
    INSERT INTO turns AS t (partition, server, until_ms) VALUES (p_partition, p_server, v_now + p_for)
    ON CONFLICT (partition) DO UPDATE SET server = excluded.server, until_ms = excluded.until_ms
     WHERE t.until_ms <= v_now;
    RETURN (SELECT t.server = p_server FROM turns AS t WHERE t.partition = p_partition);
END
$$;

-- A sign of life; answers who else gave one lately. Those silent for an hour are forgotten.
CREATE FUNCTION beat_1(p_now bigint, p_name text, p_silence bigint) RETURNS TABLE (name text)
LANGUAGE plpgsql
SET search_path = flowfabric, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := coalesce(p_now, clock_ms());
BEGIN
    INSERT INTO servers (name, entered_at, seen_at) VALUES (p_name, v_now, v_now)
    ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at;
    DELETE FROM servers WHERE seen_at < v_now - 3600000;
    RETURN QUERY SELECT s.name FROM servers AS s WHERE s.seen_at > v_now - p_silence ORDER BY s.name;
END
$$;
