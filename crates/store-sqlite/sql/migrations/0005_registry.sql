-- Records that servers read and no rule about executions does, each as a JSON body. Bodies have secrets in them.
CREATE TABLE registry (
    partition INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    PRIMARY KEY (partition, kind, id)
) STRICT, WITHOUT ROWID;
