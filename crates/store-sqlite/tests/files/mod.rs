//! Files for the suite, each in a folder of its own.

use std::sync::Arc;

use ff_core::inbox::Posted;
use ff_store::conformance::{Factory, Site};
use ff_store::{ManualClock, Soon, Store};
use ff_store_sqlite::{Options, SqliteStore, Synchronous};

pub struct Files;

struct OneFile {
    folder: tempfile::TempDir,
    options: Options,
}

impl Factory for Files {
    fn site(&self, partitions: u16, clock: Arc<ManualClock>) -> Soon<'_, Result<Box<dyn Site>, String>> {
        Box::pin(async move {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            // The suite closes stores and never cuts the power, so it need not wait for the disk.
            let synchronous = Synchronous::Off;
            let options = Options { partitions: Some(partitions), clock, synchronous, ..Options::default() };
            let site: Box<dyn Site> = Box::new(OneFile { folder, options });
            Ok(site)
        })
    }
}

impl Site for OneFile {
    fn open(&self) -> Soon<'_, Result<Arc<dyn Store>, String>> {
        Box::pin(async move {
            let store = SqliteStore::open(self.folder.path().join("store.db"), self.options.clone());
            let store: Arc<dyn Store> = Arc::new(store.map_err(|error| error.to_string())?);
            Ok(store)
        })
    }

    fn post(&self, posted: Posted) -> Soon<'_, Result<(), String>> {
        Box::pin(async move { self.insert(posted).map_err(|error| error.to_string()) })
    }
}

impl OneFile {
    /// With a connection of its own, as an application does.
    fn insert(&self, posted: Posted) -> rusqlite::Result<()> {
        let conn = rusqlite::Connection::open(self.folder.path().join("store.db"))?;
        conn.busy_timeout(std::time::Duration::from_secs(10))?;
        let partitions = self.options.partitions.unwrap_or(1);
        let row = rusqlite::params![
            posted.number as i64,
            posted.partition(partitions).0,
            posted.id.map(|id| id.0.into_bytes()),
            posted.posted_at,
            posted.kind,
            &posted.input.bytes[..],
            &*posted.input.content_type,
            posted.namespace,
            posted.lane,
            posted.key,
            posted.options,
        ];
        conn.execute(
            "INSERT INTO inbox (number, partition, id, posted_at, kind, input, content_type, namespace, lane, key, \
             options) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            row,
        )?;
        Ok(())
    }
}
