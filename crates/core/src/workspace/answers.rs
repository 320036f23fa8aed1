//! What a store answers: the records that were asked for, and pages of what is kept in order.

use std::sync::Arc;

use crate::Ms;
use crate::agenda::{AgendaEntry, AgendaKey};
use crate::change::{EndedEntry, Header};
use crate::class::Class;
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow, ListKey};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::inbox::{DeadLetter, Posted};
use crate::key::{Dedup, DedupKey, Key};
use crate::lane::Lane;
use crate::message::{Link, Message};
use crate::name::LaneName;
use crate::ready::Place;
use crate::registry::{Record, RecordKind};
use crate::stream::Stream;
use crate::suspension::SigningKey;
use crate::worker::WorkerInstance;

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
    /// No execution of the partition has a higher id. A store may name the highest of all its partitions.
    pub newest: Option<ExecutionId>,
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
    /// Whether somebody has begun to run something of what changed at a time or later. Who only says again that it still
    /// runs something took it before.
    pub fn has_leases_since(&self, time: Ms) -> bool {
        let leases = self.executions.iter().filter_map(|(_, it)| it.as_ref()?.lease());
        leases.into_iter().any(|lease| lease.acquired_at >= time)
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
