//! The suite that every store must pass, on PostgreSQL and once more through PgBouncer.

use std::sync::Arc;

use ff_scratch::{Database, test_bouncer, test_postgres};
use ff_store::conformance::{Factory, Site};
use ff_store::{ManualClock, Soon, Store};
use ff_store_postgres::{Address, Options, PostgresStore};

/// Makes databases, reached directly or through the pooler.
struct Databases {
    pooled: bool,
}

struct OneDatabase {
    url: String,
    options: Options,
    _database: Database,
}

impl Factory for Databases {
    fn site(&self, partitions: u16, clock: Arc<ManualClock>) -> Soon<'_, Result<Box<dyn Site>, String>> {
        Box::pin(async move {
            let admin = test_postgres().map_err(|error| error.to_string())?;
            let database = Database::create(&admin, None).map_err(|error| error.to_string())?;
            let url = match self.pooled {
                true => test_bouncer(database.name()).map_err(|error| error.to_string())?,
                false => database.url(),
            };
            let options = Options { partitions: Some(partitions), clock: Some(clock), ..Options::default() };
            let site: Box<dyn Site> = Box::new(OneDatabase { url, options, _database: database });
            Ok(site)
        })
    }
}

impl Site for OneDatabase {
    fn open(&self) -> Soon<'_, Result<Arc<dyn Store>, String>> {
        Box::pin(async move {
            let address = Address::parse(&self.url).map_err(|error| error.to_string())?;
            let store = PostgresStore::open(address, self.options.clone()).await;
            let store: Arc<dyn Store> = Arc::new(store.map_err(|error| error.to_string())?);
            Ok(store)
        })
    }
}

mod direct {
    use super::Databases;
    ff_store::conformance_tests!(Databases { pooled: false });
}

mod through_pgbouncer {
    use super::Databases;
    ff_store::conformance_tests!(Databases { pooled: true });
}
