//! Databases for the suite, each on the server that tests share.

use std::sync::Arc;

use ff_core::inbox::Posted;
use ff_scratch::{Database, run_sql, test_bouncer, test_postgres};
use ff_store::conformance::{Factory, Site};
use ff_store::{ManualClock, Soon, Store};
use ff_store_postgres::{Address, Options, PostgresStore};

/// Makes databases, reached directly or through the pooler.
pub struct Databases {
    pub pooled: bool,
}

struct OneDatabase {
    url: String,
    options: Options,
    database: Database,
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
            let site: Box<dyn Site> = Box::new(OneDatabase { url, options, database });
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

    /// As an application does, which has a connection of its own.
    fn post(&self, posted: Posted) -> Soon<'_, Result<(), String>> {
        Box::pin(async move {
            let text = |it: &Option<String>| it.as_ref().map_or("NULL".to_owned(), |it| quoted(it));
            let hex: String = posted.input.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let insert = format!(
                "INSERT INTO flowfabric.inbox (partition, number, id, posted_at, kind, namespace, lane, key, \
                 options, content_type, input) OVERRIDING SYSTEM VALUE \
                 VALUES ({}, {}, '{}', {}, {}, {}, {}, {}, {}, {}, '\\x{hex}')",
                posted.partition(self.options.partitions.unwrap_or(1)),
                posted.number,
                posted.id.map(|id| id.to_string()).unwrap_or_default(),
                posted.posted_at,
                quoted(&posted.kind),
                text(&posted.namespace),
                text(&posted.lane),
                text(&posted.key),
                text(&posted.options),
                quoted(&posted.input.content_type),
            );
            run_sql(&self.database.url(), &[&insert]).map(drop).map_err(|error| error.to_string())
        })
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
