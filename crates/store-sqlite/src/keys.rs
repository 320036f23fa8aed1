//! The keys that a commit changed, packed into two columns: ids of executions end to end, the rest as JSON.

use ff_core::change::{Changes, ExecutionChange};
use ff_core::key::Key;
use ff_core::{ExecutionId, Ms};
use uuid::Uuid;

/// How long commits are remembered at least, in time and in number.
pub(crate) const KEPT_MS: Ms = 3_600_000;
pub(crate) const KEPT_VERSIONS: u64 = 1_000;

const ID_BYTES: usize = 16;

/// Buffers that are used again for each commit.
#[derive(Debug, Default)]
pub(crate) struct PackedKeys {
    executions: Vec<u8>,
    others: Vec<u8>,
}

impl PackedKeys {
    pub(crate) fn fill(&mut self, changes: &Changes) -> Result<(), serde_json::Error> {
        self.executions.clear();
        self.others.clear();
        for change in &changes.executions {
            let id = match change {
                ExecutionChange::Insert(it) | ExecutionChange::Update(it) => it.id,
                ExecutionChange::Purge(id) => *id,
            };
            self.executions.extend_from_slice(id.0.as_bytes());
        }
        let dedup = changes.dedup.iter().map(|(key, _)| Key::Dedup(key.clone()));
        let lanes = changes.lanes.iter().map(|(name, _)| Key::Lane(name.clone()));
        let workers = changes.workers.iter().map(|(id, _)| Key::Worker(*id));
        let flows = changes.flows.iter().map(|(id, _)| Key::Flow(*id));
        let edges = changes.edges.iter().map(|(key, _)| Key::Edge(*key));
        let streams = changes.streams.iter().map(|(id, _)| Key::Stream(*id));
        let signing_keys = changes.signing_keys.iter().map(|(id, _)| Key::SigningKey(*id));
        let messages = changes.messages().map(Key::Message);
        let graph = dedup.chain(lanes).chain(workers).chain(flows).chain(edges);
        let others: Vec<Key> = graph.chain(streams).chain(signing_keys).chain(messages).collect();
        if !others.is_empty() {
            serde_json::to_writer(&mut self.others, &others)?;
        }
        Ok(())
    }

    pub(crate) fn executions(&self) -> Option<&[u8]> {
        (!self.executions.is_empty()).then_some(self.executions.as_slice())
    }

    pub(crate) fn others(&self) -> Option<&[u8]> {
        (!self.others.is_empty()).then_some(self.others.as_slice())
    }
}

/// Reads back what [`PackedKeys`] wrote.
pub(crate) fn unpack(
    executions: Option<&[u8]>,
    others: Option<&str>,
    into: &mut Vec<Key>,
) -> Result<(), String> {
    for id in executions.unwrap_or_default().chunks(ID_BYTES) {
        let id = Uuid::from_slice(id).map_err(|error| error.to_string())?;
        into.push(Key::Execution(ExecutionId(id)));
    }
    if let Some(others) = others {
        let others: Vec<Key> = serde_json::from_str(others).map_err(|error| error.to_string())?;
        into.extend(others);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::agenda::{AgendaKey, Subject};
    use ff_core::key::{Dedup, DedupKey};
    use ff_core::{InstanceId, LaneName, Namespace, PartitionId, Route};

    #[test]
    fn packed_keys_are_the_keys_of_the_changes() {
        let id = |n| ExecutionId::from_parts(7, Route(3), n);
        let dedup = DedupKey { namespace: Namespace::default(), key: "order 1".into() };
        let changes = Changes {
            executions: vec![ExecutionChange::Purge(id(1)), ExecutionChange::Purge(id(2))],
            dedup: vec![(dedup, Some(Dedup { execution: id(1), expires_at: 9 }))],
            lanes: vec![(LaneName::default(), None)],
            workers: vec![(InstanceId::from_parts(1, Route(2), 3), None)],
            streams: vec![(id(3), None)],
            signing_keys: vec![(5, None)],
            agenda_removed: vec![
                AgendaKey { due: 5, subject: Subject::Deliver { to: PartitionId(2), number: 7 } },
                AgendaKey { due: 6, subject: Subject::Timer(id(1)) },
            ],
            ..Changes::default()
        };
        let mut packed = PackedKeys::default();
        packed.fill(&changes).unwrap();
        assert_eq!(packed.executions().map(<[u8]>::len), Some(2 * ID_BYTES));
        let mut keys = Vec::new();
        let others = packed.others().map(|bytes| std::str::from_utf8(bytes).unwrap());
        unpack(packed.executions(), others, &mut keys).unwrap();
        assert_eq!(keys, changes.keys());
        packed.fill(&Changes::default()).unwrap();
        assert_eq!((packed.executions(), packed.others()), (None, None));
    }
}
