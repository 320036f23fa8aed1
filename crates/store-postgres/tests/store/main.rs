//! What is PostgreSQL's own: opening, migrating, rights, commits that are cut off, and what operators read when
//! something is wrong.

mod group;
mod interruptions;
mod migrating;
mod refusals;
mod tls;

use ff_scratch::{Database, run_sql, test_postgres};
use ff_store::StoreError;
use ff_store_postgres::{Address, Options, PostgresStore};

/// A database of the test's own.
fn database() -> Database {
    let admin = test_postgres().expect("a server for tests");
    Database::create(&admin, None).expect("a database")
}

async fn open(url: &str) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(Address::parse(url)?, Options::default()).await
}

fn sql(url: &str, statement: &str) -> String {
    run_sql(url, &[statement]).expect("the statement")
}

/// The same address with another part.
fn with(url: &str, from: &str, to: &str) -> String {
    assert!(url.contains(from), "{from} is part of the address");
    url.replacen(from, to, 1)
}
