//! The suite that every store must pass, on files.

use std::sync::Arc;

use ff_store::conformance::{Factory, Site};
use ff_store::{ManualClock, Soon, Store};
use ff_store_sqlite::{Options, SqliteStore, Synchronous};

struct Files;

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
}

ff_store::conformance_tests!(Files);
