//! A second copy of a partition's tables, built from the commits alone, that refuses changes which do not fit
//! what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::attempt::Attempt;
use ff_core::change::{Changes, EndedEntry, ExecutionChange, Header};
use ff_core::class::Class;
use ff_core::flow::{Edge, EdgeKey, ListKey};
use ff_core::key::{Dedup, DedupKey};
use ff_core::lane::{Lane, LaneMode};
use ff_core::message::Link;
use ff_core::payload::PayloadKey;
use ff_core::query::CountKey;
use ff_core::ready::Place;
use ff_core::registry::{Record, RecordKey};
use ff_core::step::StepKey;
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::{SigningKey, WaitpointEntry, WaitpointId};
use ff_core::worker::WorkerInstance;
use ff_core::{Execution, ExecutionId, Flow, FlowId, InstanceId, LaneName, PartitionId};

use ff_store::memory::Partition;

use super::Check;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Removed,
}

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
    pub flows: BTreeMap<FlowId, Arc<Flow>>,
    pub edges: BTreeMap<EdgeKey, Arc<Edge>>,
    /// The ordered lists of graphs, without those that are empty.
    pub lists: BTreeMap<ListKey, BTreeMap<u64, ExecutionId>>,
    pub waitpoints: BTreeMap<WaitpointId, WaitpointEntry>,
    pub signals: BTreeSet<(ExecutionId, u32)>,
    pub steps: BTreeSet<(ExecutionId, StepKey)>,
    pub streams: BTreeMap<ExecutionId, Arc<Stream>>,
    pub frames: BTreeMap<(ExecutionId, u32, u64), Frame>,
    pub signing_keys: BTreeMap<u32, Arc<SigningKey>>,
    pub registry: BTreeMap<RecordKey, Arc<Record>>,
}

impl Mirror {
    pub fn lane_mode(&self, lane: &LaneName) -> LaneMode {
        self.lanes.get(lane).map_or(LaneMode::Open, |lane| lane.mode)
    }

    /// The tables as they are stored.
    pub fn of(stored: &Partition) -> Mirror {
        let mut mirror = Mirror {
            header: *stored.header(),
            executions: stored.executions().map(|it| (it.id, it.clone())).collect(),
            ready_counts: stored.ready_counts().map(|(key, count)| (key.clone(), count)).collect(),
            agenda: stored.agenda().map(|(key, _)| *key).collect(),
            ended: stored.ended().copied().collect(),
            payloads: stored.payloads().map(|(key, _)| *key).collect(),
            attempts: stored.attempts().map(|(id, it)| ((id, it.number), it.clone())).collect(),
            dedup: stored.dedup().map(|(key, it)| (key.clone(), *it)).collect(),
            lanes: stored.lanes().map(|it| (it.name.clone(), it.clone())).collect(),
            workers: stored.workers().map(|it| (it.instance, it.clone())).collect(),
            links: stored.links().map(|it| (it.peer, *it)).collect(),
            counts: stored.counts().map(|(key, count)| (key.clone(), count)).collect(),
            flows: stored.flows().map(|it| (it.id, it.clone())).collect(),
            edges: stored.edges().map(|it| (it.key, it.clone())).collect(),
            waitpoints: stored.waitpoints().map(|it| (it.id, (**it).clone())).collect(),
            signals: stored.signals().map(|it| (it.execution, it.number)).collect(),
            steps: stored.steps().map(|it| (it.execution, it.key.clone())).collect(),
            streams: stored.streams().map(|it| (it.execution, it.clone())).collect(),
            frames: stored.frames().map(|it| ((it.execution, it.attempt, it.number), it.clone())).collect(),
            signing_keys: stored.signing_keys().map(|it| (it.id, it.clone())).collect(),
            registry: stored.registry().map(|it| (it.key(), it.clone())).collect(),
            ..Mirror::default()
        };
        for entry in stored.ready() {
            let place = entry.place();
            mirror.ready.entry((entry.lane, entry.class)).or_default().insert(place, entry.execution);
        }
        for it in stored.executions() {
            if let Some(member) = &it.spec.member {
                let members = mirror.lists.entry(ListKey::Members(member.flow)).or_default();
                members.insert(member.number, it.id);
            }
        }
        for edge in stored.edges() {
            let EdgeKey { upstream, downstream } = edge.key;
            let ends =
                [(ListKey::Downstream(upstream), downstream), (ListKey::Upstream(downstream), upstream)];
            for (list, other) in ends {
                mirror.lists.entry(list).or_default().insert(edge.number, other);
            }
        }
        mirror
    }

    pub fn apply(&mut self, changes: &Changes) -> Check {
        self.apply_header(changes)?;
        for change in &changes.executions {
            self.change_execution(change)?;
        }
        self.apply_ready(changes)?;
        self.apply_graphs(changes)?;
        self.apply_mail(changes)?;
        self.apply_registry(changes);
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
                self.change_member(it, Change::Added)?;
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
                let Some(before) = self.executions.remove(id) else {
                    return Err(format!("execution {id} is purged but was not there"));
                };
                self.change_member(&before, Change::Removed)?;
                self.payloads.retain(|key| key.execution != *id);
                self.purge_mail(*id);
                let numbers: Vec<_> =
                    self.attempts.range((*id, 0)..=(*id, u32::MAX)).map(|it| *it.0).collect();
                numbers.iter().for_each(|key| drop(self.attempts.remove(key)));
            }
        }
        Ok(())
    }

    fn change_member(&mut self, it: &Execution, change: Change) -> Check {
        match &it.spec.member {
            Some(member) => self.change_list(ListKey::Members(member.flow), member.number, it.id, change),
            None => Ok(()),
        }
    }

    fn change_list(&mut self, list: ListKey, number: u64, id: ExecutionId, change: Change) -> Check {
        let entries = self.lists.entry(list).or_default();
        let before = match change {
            Change::Added => entries.insert(number, id),
            Change::Removed => entries.remove(&number),
        };
        let expected = (change == Change::Removed).then_some(id);
        ensure!(before == expected, "{list:?} has {before:?} at {number} where {id} is {change:?}");
        if entries.is_empty() {
            self.lists.remove(&list);
        }
        Ok(())
    }

    fn apply_graphs(&mut self, changes: &Changes) -> Check {
        for (id, flow) in &changes.flows {
            if let (Some(before), Some(after)) = (self.flows.get(id), flow) {
                let created = changes.events.iter().any(|event| {
                    event.flow == Some(*id) && matches!(event.fact, ff_core::event::Fact::FlowCreated { .. })
                });
                let same = before.spec == after.spec && before.live.revision <= after.live.revision;
                ensure!(same || created, "flow {id} goes from {before:?} to {after:?}");
            }
            put(&mut self.flows, id, flow);
        }
        for (key, edge) in &changes.edges {
            let before = self.edges.get(key).cloned();
            if before.as_ref().map(|it| it.number) != edge.as_ref().map(|it| it.number) {
                let gone = before.iter().map(|edge| (edge.number, Change::Removed));
                let new = edge.iter().map(|edge| (edge.number, Change::Added));
                for (number, change) in gone.chain(new) {
                    self.change_list(ListKey::Downstream(key.upstream), number, key.downstream, change)?;
                    self.change_list(ListKey::Upstream(key.downstream), number, key.upstream, change)?;
                }
            }
            put(&mut self.edges, key, edge);
        }
        for change in &changes.executions {
            if let ExecutionChange::Purge(id) = change
                && !self.executions.contains_key(id)
            {
                let edges = self.lists.get(&ListKey::Downstream(*id));
                ensure!(edges.is_none(), "{id} is gone and edges from it are not: {edges:?}");
            }
        }
        Ok(())
    }

    /// The edges that lead out of a node, or into it.
    pub fn edges_of(&self, list: ListKey) -> impl Iterator<Item = &Arc<Edge>> {
        let others = self.lists.get(&list).into_iter().flat_map(|entries| entries.values());
        others.filter_map(move |other| {
            let key = match list {
                ListKey::Downstream(upstream) => EdgeKey { upstream, downstream: *other },
                ListKey::Upstream(downstream) => EdgeKey { upstream: *other, downstream },
                ListKey::Members(_) => return None,
            };
            self.edges.get(&key)
        })
    }

    pub fn members(&self, flow: FlowId) -> impl Iterator<Item = &Arc<Execution>> {
        let ids = self.lists.get(&ListKey::Members(flow)).into_iter().flat_map(|entries| entries.values());
        ids.filter_map(|id| self.executions.get(id))
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

pub(super) fn put<K: Ord + Clone, V: Clone>(table: &mut BTreeMap<K, V>, key: &K, value: &Option<V>) {
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
