//! Bugs of the registry, on both ways.

use ff_core::PartitionId;
use ff_core::change::Changes;
use ff_core::key::Ask;
use ff_core::workspace::Answer;

use super::Bug;
use crate::memory::{MemoryState, Partition};

/// Changes what is written.
pub fn spoil(before: &Partition, bug: Bug, changes: &mut Changes) {
    match bug {
        Bug::RecordNotRemoved => changes.registry.retain(|(_, record)| record.is_some()),
        Bug::RecordNotReplaced => {
            let known = |key| before.registry().any(|record| record.key() == key);
            changes.registry.retain(|(key, record)| record.is_none() || !known(key.clone()));
        }
        _ => {}
    }
}

/// Changes what is read.
pub fn spoil_answer(state: &MemoryState, bug: Bug, partition: PartitionId, ask: &Ask, answer: &mut Answer) {
    let (Ask::Registry { kind, id }, Answer::Registry { records, .. }) = (ask, answer) else { return };
    match bug {
        Bug::RecordsOfAllKinds => {
            let Ok(it) = state.partition(partition) else { return };
            let asked = it.registry().filter(|record| id.as_ref().is_none_or(|id| *id == record.key().id));
            *records = asked.cloned().collect();
        }
        Bug::RecordsOfAllPartitions => {
            let all = state.partitions().flat_map(|(_, it)| it.registry());
            let of_kind = all.filter(|record| record.key().kind == *kind);
            *records =
                of_kind.filter(|it| id.as_ref().is_none_or(|id| *id == it.key().id)).cloned().collect();
        }
        Bug::RecordsInAnyOrder => records.reverse(),
        _ => {}
    }
}
