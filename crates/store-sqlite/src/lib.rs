//! FlowFabric on an embedded SQLite file.
//!
//! One thread of ours owns the only connection that writes. It takes every commit that is waiting, applies
//! them in one transaction, each guarded alone by its partition's version, and answers all of them after the
//! flush. A few threads read. Other processes may use the same file at the same time.
//!
//! | to read about | open |
//! |---|---|
//! | the store itself, and what can be set | [`SqliteStore`], [`Options`] |
//! | opening a file, the schema and its numbers | `open.rs`, `schema.rs`, `sql/migrations` |
//! | group commit | `writer.rs`, `checkpoint.rs`; what one commit writes: `apply.rs`, `events.rs`, `keys.rs` |
//! | reading at one version | `load.rs`, `records.rs`; questions people ask: `listing.rs`, `log.rs`, `status.rs` |
//! | who serves this file, and who has died | `presence.rs` |
//! | what operators read when something is wrong | `error.rs` |
//! | the same rows written by a bare client, for benchmarks | [`raw`] |
//! | copies, figures | `backup.rs`, [`Stats`] |
//!
//! Every statement has a file of its own under `sql/`, named by what it does.

mod apply;
mod backup;
mod checkpoint;
mod error;
mod events;
mod graph;
mod inbox;
mod keys;
mod listing;
mod load;
mod log;
mod mail;
mod open;
mod options;
mod presence;
pub mod raw;
mod reader;
mod records;
mod registry;
mod schema;
mod sql;
mod stats;
mod status;
mod store;
mod writer;

pub use options::{Options, Synchronous};
pub use stats::Stats;
pub use store::SqliteStore;
