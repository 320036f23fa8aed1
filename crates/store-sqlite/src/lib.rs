//! FlowFabric on an embedded SQLite file.
