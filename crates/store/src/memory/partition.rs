//! One partition: its tables, and how a set of changes is applied to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ff_core::agenda::AgendaKey;
use ff_core::attempt::Attempt;
use ff_core::change::{Changes, EndedEntry, ExecutionChange, Header};
use ff_core::class::Class;
use ff_core::event::Event;
use ff_core::execution::Execution;
use ff_core::inbox::{DeadLetter, Fate, Posted};
use ff_core::key::{Dedup, DedupKey};
use ff_core::lane::Lane;
use ff_core::message::{Link, Message};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::query::CountKey;
use ff_core::ready::{Place, ReadyEntry};
use ff_core::registry::{Record, RecordKey};
use ff_core::worker::WorkerInstance;
use ff_core::{CommitId, ExecutionId, InstanceId, LaneName, Ms, PartitionId, ServerId};

use super::graph::Graphs;
use super::log::Log;
use super::mail::Mail;
use crate::commit::Version;

/// The tables of one partition. Everything is ordered, so that reading it twice gives the same.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    pub(super) log: Log,
    /// Whose turn it is, and until when.
    pub(crate) turn: Option<(ServerId, Ms)>,
    pub(super) header: Header,
    pub(super) executions: BTreeMap<ExecutionId, Arc<Execution>>,
    /// Who holds which lease; follows from the executions.
    pub(super) leases: BTreeSet<(InstanceId, ExecutionId)>,
    pub(super) ready: BTreeMap<(LaneName, Class), BTreeMap<Place, ExecutionId>>,
    pub(super) ready_counts: BTreeMap<(LaneName, Class), i64>,
    pub(super) agenda: BTreeMap<AgendaKey, Option<Arc<Message>>>,
    pub(super) ended: BTreeSet<EndedEntry>,
    pub(super) payloads: BTreeMap<PayloadKey, Payload>,
    pub(super) attempts: BTreeMap<(ExecutionId, u32), Attempt>,
    pub(super) dedup: BTreeMap<DedupKey, Dedup>,
    /// The idempotency keys in the order in which they expire.
    pub(super) dedup_expiry: BTreeSet<(Ms, DedupKey)>,
    pub(super) lanes: BTreeMap<LaneName, Arc<Lane>>,
    pub(super) workers: BTreeMap<InstanceId, Arc<WorkerInstance>>,
    pub(super) links: BTreeMap<PartitionId, Link>,
    pub(super) graphs: Graphs,
    pub(super) mail: Mail,
    pub(super) registry: BTreeMap<RecordKey, Arc<Record>>,
    pub(super) inbox: BTreeMap<u64, Posted>,
    pub(super) dead_letters: BTreeMap<u64, DeadLetter>,
    pub(super) counts: BTreeMap<CountKey, i64>,
    pub(super) events: VecDeque<Event>,
}

// ---- looking inside ----------------------------------------------------------------------------------

impl Partition {
    pub fn version(&self) -> Version {
        self.log.version()
    }

    /// Whose turn it is at a time, if it is anybody's.
    pub fn turn(&self, now: Ms) -> Option<ServerId> {
        self.turn.filter(|(_, until)| *until > now).map(|(server, _)| server)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The commits that are still known, oldest first.
    pub fn commits(&self) -> impl Iterator<Item = Version> + '_ {
        self.log.iter()
    }

    pub fn execution(&self, id: ExecutionId) -> Option<&Arc<Execution>> {
        self.executions.get(&id)
    }

    /// All executions in the order of their ids.
    pub fn executions(&self) -> impl Iterator<Item = &Arc<Execution>> {
        self.executions.values()
    }

    /// All ready entries by lane, class and place.
    pub fn ready(&self) -> impl Iterator<Item = ReadyEntry> + '_ {
        self.ready.iter().flat_map(|((lane, class), places)| {
            places.iter().map(move |(place, execution)| ReadyEntry {
                lane: lane.clone(),
                class: class.clone(),
                rank: place.rank,
                number: place.number,
                execution: *execution,
            })
        })
    }

    /// The counters of ready entries as they are kept; a recount of [`ready`](Self::ready) must give the same.
    pub fn ready_counts(&self) -> impl Iterator<Item = (&(LaneName, Class), i64)> {
        self.ready_counts.iter().map(|(key, count)| (key, *count))
    }

    pub fn agenda(&self) -> impl Iterator<Item = (&AgendaKey, &Option<Arc<Message>>)> {
        self.agenda.iter()
    }

    pub fn ended(&self) -> impl Iterator<Item = &EndedEntry> {
        self.ended.iter()
    }

    pub fn payloads(&self) -> impl Iterator<Item = (&PayloadKey, &Payload)> {
        self.payloads.iter()
    }

    /// Archived attempts by execution and number.
    pub fn attempts(&self) -> impl Iterator<Item = (ExecutionId, &Attempt)> {
        self.attempts.iter().map(|((id, _), attempt)| (*id, attempt))
    }

    pub fn dedup(&self) -> impl Iterator<Item = (&DedupKey, &Dedup)> {
        self.dedup.iter()
    }

    pub fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.values()
    }

    pub fn workers(&self) -> impl Iterator<Item = &Arc<WorkerInstance>> {
        self.workers.values()
    }

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// Records of the registry by kind and id.
    pub fn registry(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.registry.values()
    }

    /// Posted rows by number.
    pub fn inbox(&self) -> impl Iterator<Item = &Posted> {
        self.inbox.values()
    }

    /// Dead letters by number.
    pub fn dead_letters(&self) -> impl Iterator<Item = &DeadLetter> {
        self.dead_letters.values()
    }

    /// The counters of executions as they are kept; a recount of the executions must give the same.
    pub fn counts(&self) -> impl Iterator<Item = (&CountKey, i64)> {
        self.counts.iter().map(|(key, count)| (key, *count))
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> + ExactSizeIterator {
        self.events.iter()
    }
}

// ---- writing -----------------------------------------------------------------------------------------

impl Partition {
    /// Writes a commit whose guard has passed.
    pub(super) fn append(&mut self, id: CommitId, now: Ms, changes: Changes) {
        self.log.append(id, now, changes.keys());
        self.apply(changes);
    }

    /// Applies changes without asking for a version and without making one.
    pub(crate) fn apply(&mut self, mut changes: Changes) {
        self.header = changes.header;
        changes.executions.drain(..).for_each(|change| self.change_execution(change));
        self.mail.apply(&mut changes);
        self.apply_ready(changes.ready_removed, changes.ready_added);
        for key in &changes.agenda_removed {
            self.agenda.remove(key);
        }
        self.agenda.extend(changes.agenda_added.into_iter().map(|entry| (entry.key, entry.message)));
        for entry in &changes.ended_removed {
            self.ended.remove(entry);
        }
        self.ended.extend(changes.ended_added);
        self.payloads.extend(changes.payloads);
        let attempts = changes.attempts.into_iter();
        self.attempts.extend(attempts.map(|(id, attempt)| ((id, attempt.number), attempt)));
        changes.dedup.into_iter().for_each(|(key, dedup)| self.change_dedup(key, dedup));
        changes.lanes.into_iter().for_each(|(name, lane)| put(&mut self.lanes, name, lane));
        changes.workers.into_iter().for_each(|(id, worker)| put(&mut self.workers, id, worker));
        changes.registry.into_iter().for_each(|(key, record)| put(&mut self.registry, key, record));
        changes.flows.into_iter().for_each(|(id, flow)| self.graphs.put_flow(id, flow));
        changes.edges.into_iter().for_each(|(key, edge)| self.graphs.put_edge(key, edge));
        self.links.extend(changes.links.into_iter().map(|link| (link.peer, link)));
        changes.counts.into_iter().for_each(|(key, delta)| count(&mut self.counts, key, delta));
        changes.ready_counts.into_iter().for_each(|(key, delta)| count(&mut self.ready_counts, key, delta));
        for (number, fate) in changes.inbox {
            self.settle_posted(number, fate);
        }
        self.events.extend(changes.events);
        if let Some(below) = changes.events_trimmed_below {
            let old = self.events.partition_point(|event| event.number < below);
            self.events.drain(..old);
        }
    }

    fn change_execution(&mut self, change: ExecutionChange) {
        let holder = |it: &Execution| it.lease().map(|lease| (lease.instance, it.id));
        let before = match change {
            ExecutionChange::Insert(it) | ExecutionChange::Update(it) => {
                let after = holder(&it);
                let before = self.executions.insert(it.id, it.clone());
                self.graphs.member(before.as_deref(), Some(&it));
                if before.as_deref().and_then(holder) == after {
                    return;
                }
                self.leases.extend(after);
                before
            }
            ExecutionChange::Purge(id) => {
                for slot in Slot::ALL {
                    self.payloads.remove(&PayloadKey { execution: id, slot });
                }
                let numbers: Vec<_> =
                    self.attempts.range((id, 0)..=(id, u32::MAX)).map(|(key, _)| *key).collect();
                numbers.iter().for_each(|key| drop(self.attempts.remove(key)));
                self.mail.purge(id);
                let before = self.executions.remove(&id);
                self.graphs.member(before.as_deref(), None);
                before
            }
        };
        if let Some(lease) = before.as_deref().and_then(holder) {
            self.leases.remove(&lease);
        }
    }

    fn apply_ready(&mut self, removed: Vec<ReadyEntry>, added: Vec<ReadyEntry>) {
        for entry in removed {
            let (key, place) = ((entry.lane, entry.class), Place { rank: entry.rank, number: entry.number });
            if let Some(places) = self.ready.get_mut(&key) {
                places.remove(&place);
                if places.is_empty() {
                    self.ready.remove(&key);
                }
            }
        }
        for entry in added {
            let place = entry.place();
            self.ready.entry((entry.lane, entry.class)).or_default().insert(place, entry.execution);
        }
    }

    fn settle_posted(&mut self, number: u64, fate: Fate) {
        match fate {
            Fate::Taken => drop(self.inbox.remove(&number)),
            Fate::Dead { reason } => {
                let letter = |posted| DeadLetter { posted, reason, at: self.header.now };
                self.dead_letters.extend(self.inbox.remove(&number).map(letter).map(|it| (number, it)));
            }
            Fate::Reposted => {
                self.inbox.extend(self.dead_letters.remove(&number).map(|letter| (number, letter.posted)));
            }
            Fate::Dropped => drop(self.dead_letters.remove(&number)),
        }
    }

    fn change_dedup(&mut self, key: DedupKey, dedup: Option<Dedup>) {
        if let Some(before) = self.dedup.remove(&key) {
            self.dedup_expiry.remove(&(before.expires_at, key.clone()));
        }
        if let Some(dedup) = dedup {
            self.dedup_expiry.insert((dedup.expires_at, key.clone()));
            self.dedup.insert(key, dedup);
        }
    }
}

pub(super) fn put<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(table.insert(key, value)),
        None => drop(table.remove(&key)),
    }
}

/// Moves a counter; one at zero is not kept.
fn count<K: Ord + Clone>(table: &mut BTreeMap<K, i64>, key: K, delta: i64) {
    let count = table.get(&key).copied().unwrap_or(0) + delta;
    put(table, key, Some(count).filter(|count| *count != 0));
}
