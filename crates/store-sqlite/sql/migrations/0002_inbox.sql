-- The inbox: submissions that an application writes in a transaction of its own, together with whatever else
-- it changes in this file. They are taken within moments, in the order of their numbers, and only if that
-- transaction commits:
--
--     BEGIN IMMEDIATE;
--     UPDATE orders SET state = 'paid' WHERE id = 7;
--     INSERT INTO inbox (kind, input, lane, options)
--     VALUES ('charge', '{"order":7}', 'billing', '{"priority":5,"delay":"30s"}');
--     COMMIT;
--
-- Only the kind must be given. A row that does not fit moves to dead_letters with the reason. To try one again:
--
--     INSERT INTO inbox (partition, id, kind, input, content_type, namespace, lane, key, options)
--     SELECT partition, id, kind, input, content_type, namespace, lane, key, options
--       FROM dead_letters WHERE number = 3;
--     DELETE FROM dead_letters WHERE number = 3;

CREATE TABLE inbox (
    -- Never used twice, so that a dead letter keeps its number for itself.
    number       INTEGER PRIMARY KEY AUTOINCREMENT CHECK (number > 0),
    -- Where the id leads: the number in its last two bytes, modulo the partitions of the store. A store with
    -- one partition, which is the default, needs no thought about it.
    partition    INTEGER NOT NULL DEFAULT 0,
    -- The id of the execution, a UUID. Without one it is made when the row is taken. A row with a key and an
    -- id has the first two bytes of SHA-256(namespace, a zero byte, key) in the last two of the id.
    id           BLOB             CHECK (length(id) = 16),
    -- Milliseconds since 1970. Delays and deadlines count from here.
    posted_at    INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    kind         TEXT    NOT NULL,
    -- Text or bytes.
    input        ANY     NOT NULL DEFAULT 'null' CHECK (typeof(input) = 'text' OR typeof(input) = 'blob'),
    content_type TEXT    NOT NULL DEFAULT 'application/json',
    namespace    TEXT,
    lane         TEXT,
    -- The idempotency key.
    key          TEXT,
    -- A JSON object: priority, delay, run_at, deadline, deadline_at, tags, capabilities, policy.
    options      TEXT
) STRICT;

CREATE INDEX inbox_by_partition ON inbox (partition, number);

CREATE TABLE dead_letters (
    number       INTEGER PRIMARY KEY,
    partition    INTEGER NOT NULL,
    id           BLOB,
    posted_at    INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    input        ANY     NOT NULL,
    content_type TEXT    NOT NULL,
    namespace    TEXT,
    lane         TEXT,
    key          TEXT,
    options      TEXT,
    -- Why it was given up, and when.
    reason       TEXT    NOT NULL,
    at           INTEGER NOT NULL
) STRICT;

CREATE INDEX dead_letters_by_partition ON dead_letters (partition, number);
