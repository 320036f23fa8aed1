//! The servers that all tests of one run share.

use std::sync::OnceLock;

use crate::{Bouncer, Cluster, Error, Settings, with_database};

/// The address under which a test may make databases; `cargo xtask test` sets it.
pub const POSTGRES_VARIABLE: &str = "FLOWFABRIC_TEST_POSTGRES";
/// The same server through PgBouncer.
pub const BOUNCER_VARIABLE: &str = "FLOWFABRIC_TEST_BOUNCER";

/// An administrator's address of a server for tests: the one of the environment, and without one a server that ends
/// with this process. Make a [`Database`](crate::Database) on it.
///
/// # Errors
/// There is none in the environment and none can be started.
pub fn test_postgres() -> Result<String, Error> {
    static OWN: OnceLock<Result<Cluster, Error>> = OnceLock::new();
    if let Ok(url) = std::env::var(POSTGRES_VARIABLE) {
        return Ok(url);
    }
    own(OWN.get_or_init(|| Cluster::start(Settings::quick()))).map(Cluster::url)
}

/// The address of a database on that server through PgBouncer in transaction pooling.
///
/// # Errors
/// There is none in the environment and none can be started.
pub fn test_bouncer(database: &str) -> Result<String, Error> {
    static OWN: OnceLock<Result<Bouncer, Error>> = OnceLock::new();
    // A pooler of the environment stands before the server of the environment.
    if let (Ok(_), Ok(url)) = (std::env::var(POSTGRES_VARIABLE), std::env::var(BOUNCER_VARIABLE)) {
        return Ok(with_database(&url, database));
    }
    own(OWN.get_or_init(|| Bouncer::start(&test_postgres()?))).map(|bouncer| bouncer.url_of(database))
}

fn own<T>(started: &'static Result<T, Error>) -> Result<&'static T, Error> {
    started.as_ref().map_err(Clone::clone)
}
