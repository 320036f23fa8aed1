//! The workspace of a partition: its loaded records, plus what the batch being decided has changed.
//!
//! Commands change records through [`Workspace::put_execution`] and its siblings. Everything that follows
//! from a record (its place in the ready queue, its timer in the agenda, who holds its lease, the counters)
//! is derived there and nowhere else, so it cannot be forgotten or drift. A command that is rejected, needs
//! more records or panics is rolled back whole.

mod answers;
mod appended;
mod batch;
mod catching_up;
mod derived;
mod graph;
mod loading;
mod mail;
mod messages;
mod newest;
mod reading;
mod recent;
mod registry;
mod resting;
mod restoring;
mod sequence;
mod sweeping;
pub mod table;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Ms;
use crate::agenda::Agenda;
use crate::change::Header;
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow};
use crate::id::{ExecutionId, FlowId, InstanceId, PartitionId};
use crate::inbox::LetterHead;
use crate::key::{Ask, Dedup, DedupKey};
use crate::lane::Lane;
use crate::limits::Limits;
use crate::message::Link;
use crate::name::LaneName;
use crate::ready::ReadyQueues;
use crate::registry::{Record, RecordKey, RecordKind};
use crate::rejection::Rejection;
use crate::stream::Stream;
use crate::suspension::SigningKey;
use crate::worker::WorkerInstance;
pub use answers::{Answer, Missed, Opening, SweepPage};
use appended::{Lists, Marks};
pub use graph::{Moved, Todo};
pub use mail::waitpoint_entries;
use newest::NewestIds;
use recent::RecentBatches;
pub use restoring::Origin;
use table::Table;

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
    newest: NewestIds,
    /// Those that rest, in the order in which they began to.
    resting: VecDeque<ExecutionId>,
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
            newest: NewestIds::default(),
            resting: VecDeque::new(),
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
}
