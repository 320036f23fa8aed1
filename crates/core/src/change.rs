//! What a batch has changed, ready to be written: the net effect on each record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::agenda::{AgendaEntry, AgendaKey, Subject};
use crate::attempt::Attempt;
use crate::class::Class;
use crate::event::Event;
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::inbox::Fate;
use crate::key::{Dedup, DedupKey, Key};
use crate::lane::Lane;
use crate::message::Link;
use crate::name::LaneName;
use crate::payload::{Payload, PayloadKey};
use crate::query::CountKey;
use crate::ready::ReadyEntry;
use crate::registry::{Record, RecordKey};
use crate::step::Step;
use crate::stream::{Frame, Stream, Trim};
use crate::suspension::{Signal, SigningKey, WaitpointEntry, WaitpointId};
use crate::worker::WorkerInstance;

/// What a partition knows of itself; it rides in the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The number the next event gets.
    pub next_event: u64,
    /// When the sweep of old records is due.
    pub sweep_at: Option<Ms>,
    /// The time the newest commit was decided at; a partition's time never goes back.
    pub now: Ms,
}

impl Default for Header {
    fn default() -> Self {
        Header { next_event: 1, sweep_at: None, now: 0 }
    }
}

/// A place in the list of ended executions, ordered by when they may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndedEntry {
    pub remove_at: Ms,
    pub execution: ExecutionId,
}

/// What becomes of one execution record.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionChange {
    Insert(Arc<Execution>),
    Update(Arc<Execution>),
    /// Remove the execution with its payloads, attempts, signals, steps, stream and frames.
    Purge(ExecutionId),
}

impl ExecutionChange {
    pub fn id(&self) -> ExecutionId {
        match self {
            ExecutionChange::Insert(it) | ExecutionChange::Update(it) => it.id,
            ExecutionChange::Purge(id) => *id,
        }
    }

    /// Whether the execution has ended with it: whoever missed the change needs to know no more than that.
    pub fn has_ended(&self) -> bool {
        match self {
            ExecutionChange::Insert(it) | ExecutionChange::Update(it) => it.is_over(),
            ExecutionChange::Purge(_) => false,
        }
    }
}

/// Everything one commit writes, for one partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub header: Header,
    /// In order, and before payloads and attempts: an id may be purged and inserted anew. Everywhere else
    /// what is removed comes before what is added.
    pub executions: Vec<ExecutionChange>,
    pub ready_removed: Vec<ReadyEntry>,
    pub ready_added: Vec<ReadyEntry>,
    pub agenda_removed: Vec<AgendaKey>,
    pub agenda_added: Vec<AgendaEntry>,
    pub ended_removed: Vec<EndedEntry>,
    pub ended_added: Vec<EndedEntry>,
    /// An existing payload under the same key is replaced: a replay's result takes the place of the old.
    pub payloads: Vec<(PayloadKey, Payload)>,
    /// Attempts that are over and make room for the next.
    pub attempts: Vec<(ExecutionId, Attempt)>,
    pub dedup: Vec<(DedupKey, Option<Dedup>)>,
    pub lanes: Vec<(LaneName, Option<Arc<Lane>>)>,
    pub workers: Vec<(InstanceId, Option<Arc<WorkerInstance>>)>,
    pub links: Vec<Link>,
    pub flows: Vec<(FlowId, Option<Arc<Flow>>)>,
    pub edges: Vec<(EdgeKey, Option<Arc<Edge>>)>,
    pub signing_keys: Vec<(u32, Option<Arc<SigningKey>>)>,
    pub registry: Vec<(RecordKey, Option<Arc<Record>>)>,
    /// The inbox: waitpoints that close and open.
    pub waitpoints_removed: Vec<WaitpointId>,
    pub waitpoints_added: Vec<WaitpointEntry>,
    pub signals: Vec<Signal>,
    /// An existing step under the same key is replaced.
    pub steps: Vec<Step>,
    pub streams: Vec<(ExecutionId, Option<Arc<Stream>>)>,
    /// Before frames are added.
    pub frames_trimmed: Vec<Trim>,
    pub frames: Vec<Frame>,
    /// What becomes of posted rows, by their numbers and in order. Those that die move to the dead letters, with the
    /// reason and the time of the header; those that are reposted move back as they were. All others stay.
    pub inbox: Vec<(u64, Fate)>,
    pub counts: Vec<(CountKey, i64)>,
    pub ready_counts: Vec<((LaneName, Class), i64)>,
    pub events: Vec<Event>,
    /// No agenda entry is due before this, after these changes (`Ms::MAX`: there is none). Absent if whoever
    /// made the changes does not know. A store may use it to skip what was removed before.
    pub next_due: Option<Ms>,
    /// Remove events with smaller numbers.
    pub events_trimmed_below: Option<u64>,
}

impl Changes {
    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.events.is_empty() && self.events_trimmed_below.is_none()
    }

    /// How many records this writes or removes, events and counters aside.
    pub fn rows(&self) -> usize {
        self.executions.len()
            + self.ready_removed.len()
            + self.ready_added.len()
            + self.agenda_removed.len()
            + self.agenda_added.len()
            + self.ended_removed.len()
            + self.ended_added.len()
            + self.payloads.len()
            + self.attempts.len()
            + self.dedup.len()
            + self.lanes.len()
            + self.workers.len()
            + self.links.len()
            + self.flows.len()
            + self.edges.len()
            + self.inbox.len()
            + self.signing_keys.len()
            + self.registry.len()
            + self.waitpoints_removed.len()
            + self.waitpoints_added.len()
            + self.signals.len()
            + self.steps.len()
            + self.streams.len()
            + self.frames_trimmed.len()
            + self.frames.len()
    }

    /// The cached records that other servers must read again. Those of the registry are not among them: they are
    /// forgotten whenever others have committed anything.
    pub fn keys(&self) -> Vec<Key> {
        let executions = self.executions.iter().map(|change| Key::Execution(change.id()));
        executions
            .chain(self.dedup.iter().map(|(key, _)| Key::Dedup(key.clone())))
            .chain(self.lanes.iter().map(|(name, _)| Key::Lane(name.clone())))
            .chain(self.workers.iter().map(|(id, _)| Key::Worker(*id)))
            .chain(self.flows.iter().map(|(id, _)| Key::Flow(*id)))
            .chain(self.edges.iter().map(|(key, _)| Key::Edge(*key)))
            .chain(self.streams.iter().map(|(id, _)| Key::Stream(*id)))
            .chain(self.signing_keys.iter().map(|(id, _)| Key::SigningKey(*id)))
            .chain(self.messages().map(Key::Message))
            .collect()
    }

    /// The agenda entries of messages that come and go; all others follow from records.
    pub fn messages(&self) -> impl Iterator<Item = AgendaKey> + '_ {
        let added = self.agenda_added.iter().map(|entry| entry.key);
        let all = self.agenda_removed.iter().copied().chain(added);
        all.filter(|key| matches!(key.subject, Subject::Deliver { .. }))
    }
}
