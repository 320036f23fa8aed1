//! Records of the registry. They are read when a command is about them, and forgotten when others have committed.

use std::sync::Arc;

use super::table::Known;
use super::{Stop, Workspace};
use crate::key::Ask;
use crate::registry::{Record, RecordKey, RecordKind, is_id};

impl Workspace {
    pub fn record(&self, key: &RecordKey) -> Result<Option<&Arc<Record>>, Stop> {
        match self.registry.get(key) {
            Known::Present(record) => Ok(Some(record)),
            Known::Absent => Ok(None),
            Known::Unknown if !is_id(&key.id) => Ok(None),
            Known::Unknown if self.registry_whole.contains(&key.kind) => Ok(None),
            Known::Unknown => {
                let RecordKey { kind, id } = key.clone();
                Err(Stop::Need(vec![Ask::Registry { kind, id: Some(id) }]))
            }
        }
    }

    /// All records of a kind, in no order.
    pub fn records(&self, kind: RecordKind) -> Result<impl Iterator<Item = &Arc<Record>>, Stop> {
        if !self.registry_whole.contains(&kind) {
            return Err(Stop::Need(vec![Ask::Registry { kind, id: None }]));
        }
        Ok(self.registry.values().filter(move |record| record.key().kind == kind))
    }

    pub fn put_record(&mut self, record: Record) {
        self.registry.put(record.key(), Some(Arc::new(record)), self.batch);
    }

    pub fn drop_record(&mut self, key: RecordKey) {
        self.registry.put(key, None, self.batch);
    }

    /// Takes in the records that a load has brought: the one that was asked for, or all of a kind.
    pub(super) fn learn_records(
        &mut self,
        kind: RecordKind,
        id: Option<Box<str>>,
        records: Vec<Arc<Record>>,
    ) {
        let whole = id.is_none();
        if let (Some(id), true) = (id, records.is_empty()) {
            self.registry.learn(RecordKey { kind, id }, None);
        }
        for record in records {
            self.registry.learn(record.key(), Some(record));
        }
        if whole {
            self.registry_whole.insert(kind);
        }
    }

    pub(super) fn forget_registry(&mut self) {
        self.registry.clear();
        self.registry_whole.clear();
    }

    /// What is committed is dropped when there is too much of it.
    pub(super) fn evict_registry(&mut self, settled: u64, max: usize) {
        if self.registry.len() > max {
            self.registry_whole.clear();
            self.registry.evict(settled, 0, |_| true);
        }
    }
}
