-- What servers have for each other, until they take it or it is too old.
CREATE TABLE parcels (
    number   INTEGER PRIMARY KEY,
    receiver TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    body     TEXT    NOT NULL
) STRICT;
