//! FlowFabric on PostgreSQL: the same engine, for any number of servers on one database.
//!
//! A commit is one call of one SQL function that takes arrays, so it is one round trip and one statement,
//! whatever it writes; so is a load. Rules live in the core; the functions only guard the version and write.
//!
//! | to read about | open |
//! |---|---|
//! | the tables and functions | `sql/migrations` |
//! | the address and TLS | `address.rs`, `tls.rs` |
//! | connections that come back | `link.rs` |
//! | the way of a commit | `writer.rs`, `columns.rs`, `mail/columns.rs` |
//! | the way of a question | `asks.rs`, `records.rs`, `reads.rs`, `mail/reads.rs` |
//! | what operators read when something is wrong | `error.rs` |

mod address;
mod asks;
mod columns;
mod error;
mod graph;
mod inbox;
mod keys;
mod link;
mod mail;
mod migrate;
mod options;
pub mod raw;
mod reads;
mod records;
mod stats;
mod status;
mod store;
mod tls;
mod writer;

pub use address::Address;
pub use migrate::{Migrated, newest_schema};
pub use options::Options;
pub use stats::Stats;
pub use store::PostgresStore;
