//! The workspace of a partition: its loaded records, plus what the batch being decided has changed.
//!
//! Commands change records through [`Workspace::put_execution`] and its siblings. Everything that follows
//! from a record (its place in the ready queue, its timer in the agenda, who holds its lease, the counters)
//! is derived there and nowhere else, so it cannot be forgotten or drift. A command that is rejected, needs
//! more records or panics is rolled back whole.

mod batch;
mod catching_up;
mod graph;
mod loading;
mod mail;
mod recent;
mod registry;
mod sequence;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Ms;
use crate::agenda::{Agenda, AgendaEntry, AgendaKey, Subject};
use crate::attempt::Attempt;
use crate::change::{EndedEntry, Header};
use crate::class::Class;
use crate::event::{Event, Fact};
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow, ListKey};
use crate::id::{ExecutionId, FlowId, InstanceId, PartitionId};
use crate::inbox::{DeadLetter, Fate, LetterHead, Posted};
use crate::key::{Ask, Dedup, DedupKey, Key};
use crate::lane::Lane;
use crate::limits::Limits;
use crate::message::{Link, Message};
use crate::name::LaneName;
use crate::payload::{Payload, PayloadKey};
use crate::ready::{Place, ReadyQueues};
use crate::registry::{Record, RecordKey, RecordKind};
use crate::rejection::Rejection;
use crate::reply::Delivery;
use crate::step::Step;
use crate::stream::{Frame, Stream, Trim};
use crate::suspension::{Signal, SigningKey};
use crate::worker::WorkerInstance;
use graph::derive_member;
pub use graph::{Moved, Todo};
use mail::Kept;
pub use mail::waitpoint_entries;
use recent::RecentBatches;
use table::{Known, Table};

/// Why a decision stopped before its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// These must be loaded first; then the command is decided again from its beginning.
    Need(Vec<Ask>),
    Reject(Rejection),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Stop::Reject(rejection)
    }
}

impl From<crate::rejection::Invalid> for Stop {
    fn from(invalid: crate::rejection::Invalid) -> Self {
        Stop::Reject(invalid.into())
    }
}

/// What a runner must know of a partition before it decides anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opening {
    pub header: Header,
    pub links: Vec<Link>,
    pub lanes: Vec<Arc<Lane>>,
    pub workers: Vec<Arc<WorkerInstance>>,
    pub signing_keys: Vec<Arc<SigningKey>>,
    pub ready_counts: Vec<(LaneName, Class, u64)>,
    /// Every execution that is leased, and to whom.
    pub leases: Vec<(InstanceId, ExecutionId)>,
}

/// What commits have changed: the records as they are now, `None` where there is none any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missed {
    pub header: Header,
    /// All links, changed or not.
    pub links: Vec<Link>,
    /// All counts, changed or not.
    pub ready_counts: Vec<(LaneName, Class, u64)>,
    pub executions: Vec<(ExecutionId, Option<Arc<Execution>>)>,
    /// Executions that have ended: they stand in no list, and few will be looked at again.
    pub ended: Vec<ExecutionId>,
    pub dedup: Vec<(DedupKey, Option<Dedup>)>,
    pub lanes: Vec<(LaneName, Option<Arc<Lane>>)>,
    pub workers: Vec<(InstanceId, Option<Arc<WorkerInstance>>)>,
    pub flows: Vec<(FlowId, Option<Arc<Flow>>)>,
    pub edges: Vec<(EdgeKey, Option<Arc<Edge>>)>,
    pub streams: Vec<(ExecutionId, Option<Arc<Stream>>)>,
    pub signing_keys: Vec<(u32, Option<Arc<SigningKey>>)>,
    pub messages: Vec<(AgendaKey, Option<Arc<Message>>)>,
}

impl Missed {
    /// Whether somebody runs, or has renewed, what changed.
    pub fn has_leases(&self) -> bool {
        self.executions.iter().filter_map(|(_, it)| it.as_ref()).any(|execution| execution.lease().is_some())
    }

    /// The records that changed.
    pub fn keys(&self) -> Vec<Key> {
        let executions = self.executions.iter().map(|(id, _)| id).chain(&self.ended);
        executions
            .map(|id| Key::Execution(*id))
            .chain(self.dedup.iter().map(|(key, _)| Key::Dedup(key.clone())))
            .chain(self.lanes.iter().map(|(name, _)| Key::Lane(name.clone())))
            .chain(self.workers.iter().map(|(id, _)| Key::Worker(*id)))
            .chain(self.flows.iter().map(|(id, _)| Key::Flow(*id)))
            .chain(self.edges.iter().map(|(key, _)| Key::Edge(*key)))
            .chain(self.streams.iter().map(|(id, _)| Key::Stream(*id)))
            .chain(self.signing_keys.iter().map(|(id, _)| Key::SigningKey(*id)))
            .chain(self.messages.iter().map(|(key, _)| Key::Message(*key)))
            .collect()
    }

    /// Takes in the answer for one of the keys.
    pub fn add(&mut self, record: Answer) {
        match record {
            Answer::Execution(id, Some(it)) if it.is_over() => self.ended.push(id),
            Answer::Execution(id, it) => self.executions.push((id, it)),
            Answer::Dedup(key, it) => self.dedup.push((key, it)),
            Answer::Lane(name, it) => self.lanes.push((name, it)),
            Answer::Worker(id, it) => self.workers.push((id, it)),
            Answer::Flow(id, it) => self.flows.push((id, it)),
            Answer::Edge(key, it) => self.edges.push((key, it)),
            Answer::Stream(id, it) => self.streams.push((id, it)),
            Answer::SigningKey(id, it) => self.signing_keys.push((id, it)),
            Answer::Message(key, it) => self.messages.push((key, it)),
            _ => {}
        }
    }
}

/// What is old enough to be removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepPage {
    pub ended: Vec<EndedEntry>,
    /// Flows that are old enough, with when they became so.
    pub flows: Vec<(Ms, FlowId)>,
    pub dedup: Vec<(DedupKey, Dedup)>,
    /// Events with smaller numbers are old enough.
    pub events_below: Option<u64>,
    /// When the next record will be old enough.
    pub next: Option<Ms>,
}

/// The answer to one [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Execution(ExecutionId, Option<Arc<Execution>>),
    Dedup(DedupKey, Option<Dedup>),
    Lane(LaneName, Option<Arc<Lane>>),
    Worker(InstanceId, Option<Arc<WorkerInstance>>),
    Flow(FlowId, Option<Arc<Flow>>),
    Edge(EdgeKey, Option<Arc<Edge>>),
    Stream(ExecutionId, Option<Arc<Stream>>),
    SigningKey(u32, Option<Arc<SigningKey>>),
    Message(AgendaKey, Option<Arc<Message>>),
    Opening(Box<Opening>),
    Ready {
        lane: LaneName,
        class: Class,
        limit: usize,
        entries: Vec<(Place, ExecutionId)>,
        executions: Vec<Arc<Execution>>,
    },
    List {
        list: ListKey,
        after: u64,
        limit: usize,
        entries: Vec<(u64, ExecutionId)>,
        edges: Vec<Arc<Edge>>,
        executions: Vec<Arc<Execution>>,
    },
    Agenda {
        entries: Vec<AgendaEntry>,
        reached: Ms,
    },
    /// `None`: too much has changed to tell it apart, or it is not known any more.
    Changes(Option<Box<Missed>>),
    Sweep(SweepPage),
    Inbox(Vec<Posted>),
    DeadLetters {
        after: u64,
        letters: Vec<DeadLetter>,
    },
    Registry {
        kind: RecordKind,
        id: Option<Box<str>>,
        records: Vec<Arc<Record>>,
    },
}

impl Answer {
    /// The record it is about, if it answers for one.
    pub fn key(&self) -> Option<Key> {
        Some(match self {
            Answer::Execution(id, _) => Key::Execution(*id),
            Answer::Dedup(key, _) => Key::Dedup(key.clone()),
            Answer::Lane(name, _) => Key::Lane(name.clone()),
            Answer::Worker(id, _) => Key::Worker(*id),
            Answer::Flow(id, _) => Key::Flow(*id),
            Answer::Edge(key, _) => Key::Edge(*key),
            Answer::Stream(id, _) => Key::Stream(*id),
            Answer::SigningKey(id, _) => Key::SigningKey(*id),
            Answer::Message(key, _) => Key::Message(*key),
            Answer::Opening(_)
            | Answer::Ready { .. }
            | Answer::List { .. }
            | Answer::Agenda { .. }
            | Answer::Changes(_)
            | Answer::Sweep(_)
            | Answer::Inbox(_)
            | Answer::DeadLetters { .. }
            | Answer::Registry { .. } => return None,
        })
    }
}

/// The state of one partition that commands are decided on.
#[derive(Debug)]
pub struct Workspace {
    pub partition: PartitionId,
    pub partitions: u16,
    pub limits: Arc<Limits>,
    header: Header,
    header_at_batch: Header,
    header_at_command: Header,
    executions: Table<ExecutionId, Arc<Execution>>,
    dedup: Table<DedupKey, Dedup>,
    lanes: Table<LaneName, Arc<Lane>>,
    workers: Table<InstanceId, Arc<WorkerInstance>>,
    links: Table<PartitionId, Link>,
    /// Dead letters that a command is about. Others may remove one without a word, so none is kept for long.
    letters: Table<u64, LetterHead>,
    flows: Table<FlowId, Arc<Flow>>,
    edges: Table<EdgeKey, Arc<Edge>>,
    streams: Table<ExecutionId, Arc<Stream>>,
    signing_keys: Table<u32, Arc<SigningKey>>,
    /// Records of the registry. No commit tells which it has changed, so they are forgotten with each of others.
    registry: Table<RecordKey, Arc<Record>>,
    /// The kinds of which all records are known.
    registry_whole: FxHashSet<RecordKind>,
    graph: graph::Lists,
    /// About how many entries were added to the lists since they were last counted.
    graph_added: usize,
    /// What the command being decided still has to do in its graphs.
    todo: VecDeque<Todo>,
    ready: ReadyQueues,
    agenda: Agenda,
    leases: FxHashMap<InstanceId, FxHashSet<ExecutionId>>,
    sweep_page: Option<SweepPage>,
    recent: RecentBatches,
    /// The first time at which something that this batch wrote may be swept.
    batch_sweep_by: Option<Ms>,
    opened: bool,
    batch: u64,
    lists: Lists,
    marks: Marks,
}

/// What a batch appends; a command that does not stand is cut off again.
#[derive(Debug, Default)]
struct Lists {
    events: Vec<Event>,
    payloads: Vec<(PayloadKey, Payload)>,
    attempts: Vec<(ExecutionId, Attempt)>,
    agenda_added: Vec<AgendaEntry>,
    /// With the content it had in memory, which a command that does not stand puts back.
    agenda_removed: Vec<(AgendaKey, Option<AgendaEntry>)>,
    events_trimmed_below: Option<u64>,
    /// Executions removed, each with how much was listed before.
    purged: Vec<(ExecutionId, Kept)>,
    inbox: Vec<(u64, Fate)>,
    signals: Vec<Signal>,
    steps: Vec<Step>,
    frames: Vec<Frame>,
    trims: Vec<Trim>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Marks {
    events: usize,
    payloads: usize,
    attempts: usize,
    agenda_added: usize,
    agenda_removed: usize,
    events_trimmed_below: Option<u64>,
    purged: usize,
    inbox: usize,
    signals: usize,
    steps: usize,
    frames: usize,
    trims: usize,
}

impl Lists {
    /// Drops what the batch itself has made pointless: payloads, attempts and traces of what was removed after,
    /// results that a later result replaces, and messages that were sent and struck.
    fn leave_out_overwritten(&mut self) {
        let sent = self.agenda_added.len();
        let struck: FxHashSet<AgendaKey> = self.agenda_removed.iter().map(|(key, _)| *key).collect();
        let added: FxHashSet<AgendaKey> = self.agenda_added.iter().map(|entry| entry.key).collect();
        self.agenda_added.retain(|entry| !struck.contains(&entry.key));
        if self.agenda_added.len() != sent {
            self.agenda_removed.retain(|(key, _)| !added.contains(key));
        }
        let purged = std::mem::take(&mut self.purged).into_iter();
        let purged: FxHashMap<ExecutionId, Kept> = purged.collect();
        self.leave_out_traces(&purged);
        let mut numbers = 0..;
        self.attempts.retain(|(id, _)| {
            let number = numbers.next().unwrap_or(0);
            purged.get(id).is_none_or(|kept| number >= kept.attempts)
        });
        let newest: FxHashMap<PayloadKey, usize> =
            self.payloads.iter().enumerate().map(|(number, (key, _))| (*key, number)).collect();
        let mut numbers = 0..;
        self.payloads.retain(|(key, _)| {
            let number = numbers.next().unwrap_or(0);
            newest[key] == number && purged.get(&key.execution).is_none_or(|kept| number >= kept.payloads)
        });
    }
}

impl Workspace {
    pub fn new(partition: PartitionId, partitions: u16, limits: Arc<Limits>) -> Workspace {
        Workspace {
            partition,
            partitions,
            limits,
            header: Header::default(),
            header_at_batch: Header::default(),
            header_at_command: Header::default(),
            executions: Table::default(),
            dedup: Table::default(),
            lanes: Table::default(),
            workers: Table::default(),
            links: Table::default(),
            letters: Table::default(),
            flows: Table::default(),
            edges: Table::default(),
            streams: Table::default(),
            signing_keys: Table::default(),
            registry: Table::default(),
            registry_whole: FxHashSet::default(),
            graph: graph::Lists::default(),
            graph_added: 0,
            todo: VecDeque::new(),
            ready: ReadyQueues::default(),
            agenda: Agenda::default(),
            leases: FxHashMap::default(),
            sweep_page: None,
            recent: RecentBatches::default(),
            batch_sweep_by: None,
            opened: false,
            batch: 1,
            lists: Lists::default(),
            marks: Marks::default(),
        }
    }

    // ---- reading -------------------------------------------------------------------------------------

    /// Whether the opening has been taken in; before that nothing can be decided.
    pub fn is_open(&self) -> bool {
        self.opened
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn batch(&self) -> u64 {
        self.batch
    }

    pub fn ready(&self) -> &ReadyQueues {
        &self.ready
    }

    pub fn ready_mut(&mut self) -> &mut ReadyQueues {
        &mut self.ready
    }

    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }

    pub fn agenda_mut(&mut self) -> &mut Agenda {
        &mut self.agenda
    }

    pub fn cached_executions(&self) -> usize {
        self.executions.len()
    }

    pub fn execution(&self, id: ExecutionId) -> Result<Option<&Arc<Execution>>, Stop> {
        match self.executions.get(&id) {
            Known::Present(execution) => Ok(Some(execution)),
            Known::Absent => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Execution(id))])),
        }
    }

    /// The execution, or the rejection that there is none.
    pub fn require(&self, id: ExecutionId) -> Result<&Arc<Execution>, Stop> {
        self.execution(id)?
            .ok_or_else(|| Rejection::NotFound { what: "execution".into(), id: id.to_string() }.into())
    }

    pub fn is_cached(&self, id: ExecutionId) -> bool {
        !matches!(self.executions.get(&id), Known::Unknown)
    }

    pub fn dedup(&self, key: &DedupKey) -> Result<Option<Dedup>, Stop> {
        match self.dedup.get(key) {
            Known::Present(dedup) => Ok(Some(*dedup)),
            Known::Absent => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Dedup(key.clone()))])),
        }
    }

    /// The lane's settings; a lane nobody has changed has the default ones.
    pub fn lane(&self, name: &LaneName) -> Arc<Lane> {
        match self.lanes.get(name) {
            Known::Present(lane) => lane.clone(),
            _ => Arc::new(Lane::default_of(name.clone())),
        }
    }

    pub fn worker(&self, instance: InstanceId) -> Option<&Arc<WorkerInstance>> {
        match self.workers.get(&instance) {
            Known::Present(worker) => Some(worker),
            _ => None,
        }
    }

    pub fn workers(&self) -> impl Iterator<Item = &Arc<WorkerInstance>> {
        self.workers.values()
    }

    /// Executions whose lease this instance holds in this partition.
    pub fn leases_of(&self, instance: InstanceId) -> impl Iterator<Item = ExecutionId> + '_ {
        self.leases.get(&instance).into_iter().flatten().copied()
    }

    pub fn link(&self, peer: PartitionId) -> Link {
        match self.links.get(&peer) {
            Known::Present(link) => *link,
            _ => Link { peer, sent: 0, received: 0 },
        }
    }

    /// The dead letter with this number, or the rejection that there is none.
    pub fn require_letter(&self, number: u64) -> Result<LetterHead, Stop> {
        match (self.letters.get(&number), number.checked_sub(1)) {
            (Known::Present(letter), _) => Ok(letter.clone()),
            (Known::Unknown, Some(after)) => Err(Stop::Need(vec![Ask::DeadLetters { after, limit: 1 }])),
            // Numbers begin with 1.
            (Known::Unknown, None) | (Known::Absent, _) => {
                Err(Rejection::NotFound { what: "dead letter".into(), id: number.to_string() }.into())
            }
        }
    }

    /// The page a sweep works on; loaded on demand and used once.
    pub fn take_sweep_page(&mut self, ask: Ask) -> Result<SweepPage, Stop> {
        self.sweep_page.take().ok_or_else(|| Stop::Need(vec![ask]))
    }

    // ---- writing -------------------------------------------------------------------------------------

    pub fn put_execution(&mut self, mut execution: Execution, now: Ms) {
        execution.live.changed_at = now;
        execution.settle_timer();
        if let Some(entry) = ended_entry(&execution) {
            self.sweep_by(entry.remove_at);
        }
        let (id, batch) = (execution.id, self.batch);
        let after = Arc::new(execution);
        let before = self.executions.put(id, Some(after.clone()), batch);
        derive(&mut self.ready, &mut self.agenda, &mut self.leases, before.as_deref(), Some(&after));
        derive_member(&mut self.graph, before.as_deref(), Some(&after));
        let ended = after.spec.parent.is_some() && after.end().is_some();
        if ended && before.as_ref().is_none_or(|before| before.end().is_none()) {
            self.todo.push_back(Todo::ChildEnded(id));
        }
        self.todo.extend(Moved::of(before.as_ref(), &after).map(Todo::Moved));
    }

    /// Removes every trace of an execution; its stream must be [known](Self::know_stream).
    pub fn purge_execution(&mut self, id: ExecutionId) {
        let before = self.executions.put(id, None, self.batch);
        let lists = &self.lists;
        let kept =
            Kept { payloads: lists.payloads.len(), attempts: lists.attempts.len(), traces: lists.traces() };
        self.lists.purged.push((id, kept));
        self.purge_stream(id);
        derive(&mut self.ready, &mut self.agenda, &mut self.leases, before.as_deref(), None);
        derive_member(&mut self.graph, before.as_deref(), None);
    }

    pub fn put_dedup(&mut self, key: DedupKey, dedup: Option<Dedup>) {
        if let Some(dedup) = &dedup {
            self.sweep_by(dedup.expires_at);
        }
        self.dedup.put(key, dedup, self.batch);
    }

    pub fn put_lane(&mut self, lane: Lane) {
        self.lanes.put(lane.name.clone(), Some(Arc::new(lane)), self.batch);
    }

    pub fn put_worker(&mut self, worker: WorkerInstance) {
        worker.remove_at().into_iter().for_each(|at| self.sweep_by(at));
        let after = Arc::new(worker);
        let before = self.workers.put(after.instance, Some(after.clone()), self.batch);
        derive_worker(&mut self.agenda, before.as_deref(), Some(&after));
    }

    pub fn purge_worker(&mut self, instance: InstanceId) {
        let before = self.workers.put(instance, None, self.batch);
        derive_worker(&mut self.agenda, before.as_deref(), None);
    }

    pub fn put_link(&mut self, link: Link) {
        self.links.put(link.peer, Some(link), self.batch);
    }

    pub fn put_payload(&mut self, key: PayloadKey, payload: Payload) {
        self.lists.payloads.push((key, payload));
    }

    pub fn archive_attempt(&mut self, id: ExecutionId, attempt: Attempt) {
        self.lists.attempts.push((id, attempt));
    }

    /// Decides what becomes of a posted row, of which the head tells.
    pub fn settle_posted(&mut self, number: u64, head: LetterHead, fate: Fate) {
        let letter = matches!(fate, Fate::Dead { .. }).then_some(head);
        self.letters.put(number, letter, self.batch);
        self.lists.inbox.push((number, fate));
    }

    /// Records a fact about an execution and returns the event's number.
    pub fn emit(&mut self, execution: &Execution, now: Ms, fact: Fact) -> u64 {
        let spec = &execution.spec;
        let number = self.next_number();
        self.lists.events.push(Event {
            number,
            at: now,
            execution: Some(execution.id),
            flow: execution.flow(),
            namespace: Some(spec.namespace.clone()),
            lane: Some(spec.lane.clone()),
            tags: execution.live.tags.clone(),
            fact,
        });
        number
    }

    /// Records a fact about a lane, a worker or a posted row.
    pub fn emit_global(&mut self, lane: Option<LaneName>, now: Ms, fact: Fact) {
        let number = self.next_number();
        let (namespace, tags) = (None, Default::default());
        let (execution, flow) = (None, None);
        self.lists.events.push(Event { number, at: now, execution, flow, namespace, lane, tags, fact });
    }

    fn next_number(&mut self) -> u64 {
        let number = self.header.next_event;
        self.header.next_event += 1;
        number
    }

    /// Sends a message to every other partition.
    pub fn broadcast(&mut self, message: Message, now: Ms) -> Vec<Delivery> {
        let message = Arc::new(message);
        let peers = (0..self.partitions).map(PartitionId).filter(|peer| *peer != self.partition);
        let mut deliveries = Vec::new();
        for peer in peers.collect::<Vec<_>>() {
            let mut link = self.link(peer);
            link.sent += 1;
            self.put_link(link);
            let subject = Subject::Deliver { to: peer, number: link.sent };
            let key = AgendaKey { due: now, subject };
            self.agenda.add(key, Some(message.clone()));
            self.lists.agenda_added.push(AgendaEntry { key, message: Some(message.clone()) });
            deliveries.push(Delivery { to: peer, number: link.sent });
        }
        deliveries
    }

    /// Sends a copy once more if an earlier one may not have arrived everywhere, so that whoever repeats a
    /// call waits as long as the first caller had to.
    pub fn broadcast_again(&mut self, message: Message, now: Ms) -> Vec<Delivery> {
        let same = |it: &Option<Arc<Message>>| it.as_ref().is_some_and(|it| it.is_about_the_same(&message));
        let all_known = self.agenda.mark() >= now;
        if all_known && !self.agenda.iter().any(|(_, it)| same(it)) {
            return Vec::new();
        }
        self.broadcast(message, now)
    }

    /// Deletes an agenda entry that no record derives: a delivered message, or a stray.
    pub fn strike(&mut self, key: AgendaKey) {
        let entry = self.agenda.entry(&key);
        self.agenda.remove(&key);
        self.lists.agenda_removed.push((key, entry));
    }

    /// Makes sure that a sweep happens at the given time or before.
    pub fn sweep_by(&mut self, at: Ms) {
        self.batch_sweep_by = Some(self.batch_sweep_by.map_or(at, |first| first.min(at)));
        if self.header.sweep_at.is_none_or(|sweep_at| sweep_at > at) {
            self.set_sweep(Some(at));
        }
    }

    /// Plans the sweep after one that has just worked on a page: for what the page says comes next, and for
    /// what was written since the page was read and is not on it.
    pub fn plan_sweep(&mut self, next: Option<Ms>, not_before: Ms) {
        let written = self.recent.sweep_by().into_iter().chain(self.batch_sweep_by);
        let dead = self.workers.values().filter_map(|worker| worker.remove_at());
        let next = next.into_iter().chain(written).chain(dead).min();
        self.set_sweep(next.map(|at| at.max(not_before)));
    }

    pub fn set_sweep(&mut self, at: Option<Ms>) {
        let entry = |due| AgendaKey { due, subject: Subject::Sweep };
        if let Some(before) = self.header.sweep_at {
            self.agenda.remove(&entry(before));
        }
        if let Some(after) = at {
            self.agenda.add(entry(after), None);
        }
        self.header.sweep_at = at;
    }

    pub fn trim_events_below(&mut self, number: u64) {
        self.lists.events_trimmed_below = Some(number);
    }
}

/// The agenda entries of an execution: its timer, the news of a member that is still being passed on, and the
/// children it has left behind.
fn agenda_keys(execution: &Execution) -> [Option<AgendaKey>; 3] {
    let timer = execution.live.timer.map(|due| AgendaKey { due, subject: Subject::Timer(execution.id) });
    let passing = execution.node().and_then(|node| node.passing);
    let subject = Subject::Cascade(execution.id);
    let left = execution.end().filter(|_| execution.has_children());
    let children = left.map(|end| AgendaKey { due: end.at, subject: Subject::Children(execution.id) });
    [timer, passing.map(|passing| AgendaKey { due: passing.since, subject }), children]
}

/// The agenda entries that go and come when an execution goes from one record to another.
fn agenda_change(
    before: Option<&Execution>,
    after: Option<&Execution>,
) -> impl Iterator<Item = (Option<AgendaKey>, Option<AgendaKey>)> {
    let keys = |it: Option<&Execution>| it.map_or([None; 3], agenda_keys);
    keys(before).into_iter().zip(keys(after)).filter(|(old, new)| old != new)
}

/// Its place among what retention removes; a member leaves with its flow.
fn ended_entry(execution: &Execution) -> Option<EndedEntry> {
    let end = execution.end().filter(|_| execution.spec.member.is_none());
    end.map(|end| EndedEntry { remove_at: end.remove_at, execution: execution.id })
}

/// Keeps the in-memory views right when an execution goes from one record to another.
fn derive(
    ready: &mut ReadyQueues,
    agenda: &mut Agenda,
    leases: &mut FxHashMap<InstanceId, FxHashSet<ExecutionId>>,
    before: Option<&Execution>,
    after: Option<&Execution>,
) {
    let entry = |it: Option<&Execution>| it.and_then(Execution::ready_entry);
    let (old, new) = (entry(before), entry(after));
    if old != new {
        old.iter().for_each(|entry| ready.remove(entry));
        new.iter().for_each(|entry| ready.add(entry));
    }
    for (old, new) in agenda_change(before, after) {
        old.iter().for_each(|key| agenda.remove(key));
        new.iter().for_each(|key| agenda.add(*key, None));
    }
    let holder = |it: Option<&Execution>| it.and_then(|it| it.lease().map(|lease| (lease.instance, it.id)));
    let (old, new) = (holder(before), holder(after));
    if old != new {
        if let Some((instance, id)) = old
            && let Some(held) = leases.get_mut(&instance)
        {
            held.remove(&id);
            if held.is_empty() {
                leases.remove(&instance);
            }
        }
        if let Some((instance, id)) = new {
            leases.entry(instance).or_default().insert(id);
        }
    }
}

fn derive_worker(agenda: &mut Agenda, before: Option<&WorkerInstance>, after: Option<&WorkerInstance>) {
    before.iter().flat_map(|it| it.agenda()).for_each(|key| agenda.remove(&key));
    after.iter().flat_map(|it| it.agenda()).for_each(|key| agenda.add(key, None));
}
