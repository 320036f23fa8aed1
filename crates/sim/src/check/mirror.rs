//! A second copy of a partition's tables, built from the commits alone, that refuses changes which do not fit
//! what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::attempt::Attempt;
use ff_core::change::{Changes, EndedEntry, ExecutionChange, Header};
use ff_core::class::Class;
use ff_core::key::{Dedup, DedupKey};
use ff_core::lane::{Lane, LaneMode};
use ff_core::message::Link;
use ff_core::payload::PayloadKey;
use ff_core::query::CountKey;
use ff_core::ready::Place;
use ff_core::worker::WorkerInstance;
use ff_core::{Execution, ExecutionId, InstanceId, LaneName, PartitionId};

use super::Check;

#[derive(Debug, Default)]
pub struct Mirror {
    pub header: Header,
    pub executions: BTreeMap<ExecutionId, Arc<Execution>>,
    pub ready: BTreeMap<(LaneName, Class), BTreeMap<Place, ExecutionId>>,
    pub ready_counts: BTreeMap<(LaneName, Class), i64>,
    pub agenda: BTreeSet<AgendaKey>,
    pub ended: BTreeSet<EndedEntry>,
    pub payloads: BTreeSet<PayloadKey>,
    pub attempts: BTreeMap<(ExecutionId, u32), Attempt>,
    pub dedup: BTreeMap<DedupKey, Dedup>,
    pub lanes: BTreeMap<LaneName, Arc<Lane>>,
    pub workers: BTreeMap<InstanceId, Arc<WorkerInstance>>,
    pub links: BTreeMap<PartitionId, Link>,
    pub counts: BTreeMap<CountKey, i64>,
}

impl Mirror {
    pub fn lane_mode(&self, lane: &LaneName) -> LaneMode {
        self.lanes.get(lane).map_or(LaneMode::Open, |lane| lane.mode)
    }

    pub fn apply(&mut self, changes: &Changes) -> Check {
        self.apply_header(changes)?;
        for change in &changes.executions {
            self.change_execution(change)?;
        }
        self.apply_ready(changes)?;
        for key in &changes.agenda_removed {
            ensure!(self.agenda.remove(key), "agenda entry {key:?} is removed but was not there");
        }
        for entry in &changes.agenda_added {
            let key = entry.key;
            ensure!(self.agenda.insert(key), "agenda entry {key:?} is added but was there");
            let is_message = matches!(key.subject, Subject::Deliver { .. });
            ensure!(is_message == entry.message.is_some(), "only messages have content: {entry:?}");
        }
        for entry in &changes.ended_removed {
            ensure!(self.ended.remove(entry), "{entry:?} is removed but was not there");
        }
        for entry in &changes.ended_added {
            ensure!(self.ended.insert(*entry), "{entry:?} is added but was there");
        }
        self.payloads.extend(changes.payloads.iter().map(|(key, _)| *key));
        for (id, attempt) in &changes.attempts {
            let before = self.attempts.insert((*id, attempt.number), attempt.clone());
            ensure!(before.is_none(), "attempt {} of {id} is archived twice", attempt.number);
        }
        changes.dedup.iter().for_each(|(key, it)| put(&mut self.dedup, key, it));
        changes.lanes.iter().for_each(|(key, it)| put(&mut self.lanes, key, it));
        changes.workers.iter().for_each(|(key, it)| put(&mut self.workers, key, it));
        for link in &changes.links {
            if let Some(before) = self.links.insert(link.peer, *link) {
                let grows = before.sent <= link.sent && before.received <= link.received;
                ensure!(grows, "a link goes back from {before:?} to {link:?}");
            }
        }
        for (key, delta) in &changes.counts {
            count(&mut self.counts, key, *delta)?;
        }
        for (key, delta) in &changes.ready_counts {
            count(&mut self.ready_counts, key, *delta)?;
        }
        Ok(())
    }

    fn apply_header(&mut self, changes: &Changes) -> Check {
        let (before, after) = (self.header, changes.header);
        ensure!(after.now >= before.now, "partition time goes back from {} to {}", before.now, after.now);
        for (n, event) in changes.events.iter().enumerate() {
            let expected = before.next_event + n as u64;
            ensure!(event.number == expected, "event {} where {expected} is next", event.number);
        }
        let next = before.next_event + changes.events.len() as u64;
        ensure!(after.next_event == next, "the header says event {} where {next} is next", after.next_event);
        self.header = after;
        Ok(())
    }

    fn change_execution(&mut self, change: &ExecutionChange) -> Check {
        match change {
            ExecutionChange::Insert(it) => {
                let before = self.executions.insert(it.id, it.clone());
                ensure!(before.is_none(), "execution {} is inserted but was there", it.id);
            }
            ExecutionChange::Update(it) => {
                let Some(before) = self.executions.insert(it.id, it.clone()) else {
                    return Err(format!("execution {} is updated but was not there", it.id));
                };
                ensure!(before.spec == it.spec, "what was asked for changes: {before:?} {it:?}");
            }
            ExecutionChange::Purge(id) => {
                ensure!(self.executions.remove(id).is_some(), "execution {id} is purged but was not there");
                self.payloads.retain(|key| key.execution != *id);
                let numbers: Vec<_> =
                    self.attempts.range((*id, 0)..=(*id, u32::MAX)).map(|it| *it.0).collect();
                numbers.iter().for_each(|key| drop(self.attempts.remove(key)));
            }
        }
        Ok(())
    }

    fn apply_ready(&mut self, changes: &Changes) -> Check {
        for entry in &changes.ready_removed {
            let key = (entry.lane.clone(), entry.class.clone());
            let removed = self.ready.get_mut(&key).and_then(|places| places.remove(&entry.place()));
            ensure!(removed == Some(entry.execution), "{entry:?} is removed but {removed:?} was there");
            if self.ready.get(&key).is_some_and(BTreeMap::is_empty) {
                self.ready.remove(&key);
            }
        }
        for entry in &changes.ready_added {
            let places = self.ready.entry((entry.lane.clone(), entry.class.clone())).or_default();
            let before = places.insert(entry.place(), entry.execution);
            ensure!(before.is_none(), "{entry:?} takes the place of {before:?}");
        }
        Ok(())
    }
}

fn put<K: Ord + Clone, V: Clone>(table: &mut BTreeMap<K, V>, key: &K, value: &Option<V>) {
    match value {
        Some(value) => drop(table.insert(key.clone(), value.clone())),
        None => drop(table.remove(key)),
    }
}

fn count<K: Ord + Clone + std::fmt::Debug>(table: &mut BTreeMap<K, i64>, key: &K, delta: i64) -> Check {
    let count = table.get(key).copied().unwrap_or(0) + delta;
    ensure!(count >= 0, "the counter of {key:?} falls to {count}");
    put(table, key, &Some(count).filter(|count| *count != 0));
    Ok(())
}
