//! Private servers that end with their owner, and faults between programs. For tests and benchmarks only.
//!
//! | to have | use |
//! |---|---|
//! | the PostgreSQL server that tests share | [`test_postgres`], and PgBouncer before it: [`test_bouncer`] |
//! | a database nobody else sees | [`Database::create`] |
//! | a server to kill, restart or fail over | [`Cluster::start`], [`Cluster::standby`] |
//! | a transaction that somebody forgot to end | [`OpenTransaction::begin`] |
//! | a lock that is held while something else runs | [`Session::open`], [`until_blocked`] |
//! | a pooler in front of a server | [`Bouncer::start`] |
//! | a connection that breaks when a test says so | [`Proxy::start`] |
//!
//! Whatever is started here lives in a temporary folder, listens on 127.0.0.1 only, and ends with the process that
//! started it, also if that is killed (`keeper.rs`). Nothing here knows a store.

mod account;
mod binaries;
mod bouncer;
mod cluster;
mod database;
mod error;
mod keeper;
mod open_transaction;
mod port;
mod proxy;
mod random;
mod session;
mod settings;
mod shared;
mod sql;
mod template;
mod url;

pub use binaries::{Binaries, find_pgbouncer};
pub use bouncer::Bouncer;
pub use cluster::Cluster;
pub use database::Database;
pub use error::Error;
pub use open_transaction::OpenTransaction;
pub use proxy::Proxy;
pub use session::{Session, until_blocked};
pub use settings::Settings;
pub use shared::{BOUNCER_VARIABLE, POSTGRES_VARIABLE, test_bouncer, test_postgres};
pub use sql::run_sql;
pub use url::with_database;
