-- What arrives for executions and what they leave behind while they run. What an execution waits for stands in
-- its record.

-- Keys that the tokens of waitpoints are signed with. Whoever reads them can make tokens.
CREATE TABLE signing_keys (
    partition  INTEGER NOT NULL,
    id         INTEGER NOT NULL CHECK (id > 0),
    secret     BLOB    NOT NULL CHECK (length(secret) = 32),
    created_at INTEGER NOT NULL,
    -- From when on tokens signed with it are refused.
    retires_at INTEGER,
    revision   INTEGER NOT NULL,
    PRIMARY KEY (partition, id)
) STRICT, WITHOUT ROWID;

-- Open waitpoints, with what people search by.
CREATE TABLE waitpoints (
    execution  BLOB    NOT NULL CHECK (length(execution) = 16),
    number     INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    namespace  TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT,
    -- Why its execution is suspended, while it is.
    reason     TEXT,
    opened_at  INTEGER NOT NULL,
    expires_at INTEGER,
    -- SHA-256 of the action that is proposed.
    digest     BLOB             CHECK (length(digest) = 32),
    PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE signals (
    execution    BLOB    NOT NULL CHECK (length(execution) = 16),
    number       INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    name         TEXT,
    -- The number of the waitpoint it came through.
    waitpoint    INTEGER,
    source       TEXT,
    correlation  TEXT,
    content_type TEXT    NOT NULL,
    bytes        BLOB    NOT NULL,
    PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    execution    BLOB    NOT NULL CHECK (length(execution) = 16),
    name         TEXT    NOT NULL,
    -- How many steps of that name were called before it.
    occurrence   INTEGER NOT NULL,
    -- Its place in the order in which steps were recorded.
    number       INTEGER NOT NULL,
    kind         TEXT    NOT NULL CHECK (
        kind = 'run' OR kind = 'wait' OR kind = 'sleep' OR kind = 'waitpoint' OR kind = 'child'),
    attempt      INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    content_type TEXT    NOT NULL,
    bytes        BLOB    NOT NULL,
    PRIMARY KEY (execution, name, occurrence)
) STRICT, WITHOUT ROWID;

-- The output stream of the newest attempt that appended anything.
CREATE TABLE streams (
    execution       BLOB    NOT NULL PRIMARY KEY CHECK (length(execution) = 16),
    partition       INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    -- The number of the next frame, and of the oldest that may be kept.
    next            INTEGER NOT NULL,
    first           INTEGER NOT NULL,
    -- The document that summary frames are merged into, and how often it was changed.
    summary_version INTEGER,
    summary         TEXT,
    durable_at      INTEGER,
    best_effort_at  INTEGER,
    trim_at         INTEGER,
    CHECK ((summary IS NULL) = (summary_version IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE frames (
    execution BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    mode      TEXT    NOT NULL CHECK (mode = 'durable' OR mode = 'summary' OR mode = 'best_effort'),
    bytes     BLOB    NOT NULL,
    PRIMARY KEY (execution, attempt, number)
) STRICT, WITHOUT ROWID;

-- ---- for people ---------------------------------------------------------------------------------------

CREATE VIEW waitpoints_view AS
SELECT lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) || '-' || number AS waitpoint,
       namespace, lane, kind, name, reason,
       strftime('%Y-%m-%d %H:%M:%f', opened_at / 1000.0, 'unixepoch') AS opened_at,
       strftime('%Y-%m-%d %H:%M:%f', expires_at / 1000.0, 'unixepoch') AS expires_at,
       lower(hex(digest)) AS digest
  FROM waitpoints;

CREATE VIEW signals_view AS
SELECT lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution,
       number, strftime('%Y-%m-%d %H:%M:%f', at / 1000.0, 'unixepoch') AS at, name, waitpoint, source,
       correlation, content_type, length(bytes) AS bytes,
       CASE content_type WHEN 'application/json' THEN CAST(bytes AS TEXT) END AS json
  FROM signals;

CREATE VIEW steps_view AS
SELECT lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution,
       number, name, occurrence, kind, attempt,
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', ended_at / 1000.0, 'unixepoch') AS ended_at,
       content_type, length(bytes) AS bytes,
       CASE content_type WHEN 'application/json' THEN CAST(bytes AS TEXT) END AS json
  FROM steps;

CREATE VIEW frames_view AS
SELECT lower(substr(hex(execution), 1, 8) || '-' || substr(hex(execution), 9, 4) || '-'
             || substr(hex(execution), 13, 4) || '-' || substr(hex(execution), 17, 4) || '-'
             || substr(hex(execution), 21)) AS execution,
       attempt, number, strftime('%Y-%m-%d %H:%M:%f', at / 1000.0, 'unixepoch') AS at, kind, mode,
       length(bytes) AS bytes, CAST(bytes AS TEXT) AS text
  FROM frames;
