-- What servers have for each other, until they take it or it is too old. Nothing depends on it, so a crash may lose it,
-- and leaving or taking a parcel waits for no flush. The time comes first in what is looked for: whoever takes parcels
-- meets no dead rows but those of the last seconds, however long another's transaction holds vacuum back.
CREATE UNLOGGED TABLE parcels (
    receiver text   COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    id       uuid   NOT NULL DEFAULT gen_random_uuid(),
    body     text   NOT NULL,
    PRIMARY KEY (receiver, at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Leaves parcels for others and takes those that are here for this server.
CREATE FUNCTION exchange_1(p_now bigint, p_server text, p_keep bigint, p_receivers text[], p_bodies text[])
RETURNS TABLE (body text)
LANGUAGE plpgsql
SET search_path = flowfabric, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := coalesce(p_now, clock_ms());
BEGIN
    IF p_receivers <> '{}' THEN
        INSERT INTO parcels (receiver, at, body)
        SELECT u.receiver, v_now, u.body FROM unnest(p_receivers, p_bodies) AS u(receiver, body);
    END IF;
    RETURN QUERY
    DELETE FROM parcels AS p WHERE p.receiver = p_server AND p.at > v_now - p_keep RETURNING p.body;
END
$$;

-- A sign of life; answers who else gave one lately. Servers that were silent for an hour are forgotten, and so are
-- parcels that nobody has taken.
CREATE OR REPLACE FUNCTION beat_1(p_now bigint, p_name text, p_silence bigint) RETURNS TABLE (name text)
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
    DELETE FROM parcels WHERE at < v_now - 60000;
    RETURN QUERY SELECT s.name FROM servers AS s WHERE s.seen_at > v_now - p_silence ORDER BY s.name;
END
$$;
