//! Names of stored records: what a command needs to see, and what a commit has changed.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::agenda::AgendaKey;
use crate::class::Class;
use crate::flow::{EdgeKey, ListKey};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::name::{LaneName, Namespace, NodeName};
use crate::ready::Place;
use crate::registry::RecordKind;
use crate::suspension::WaitpointId;

/// An idempotency key within its namespace, or the name of a node in its flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DedupKey {
    pub namespace: Namespace,
    pub key: Box<str>,
}

/// Keys of signals and names of nodes are kept beside those of submissions, under prefixes that none of those has.
const OF_SIGNAL: &str = "\u{1}signal/";
const OF_NODE: &str = "\u{1}node/";

impl DedupKey {
    /// The key of a signal to an execution.
    pub fn of_signal(namespace: Namespace, execution: ExecutionId, key: &str) -> DedupKey {
        DedupKey { namespace, key: format!("{OF_SIGNAL}{execution}/{key}").into_boxed_str() }
    }

    /// The key of a signal to a waitpoint. Whoever may signal one must not use up the keys of others.
    pub fn of_signal_at(namespace: Namespace, waitpoint: WaitpointId, key: &str) -> DedupKey {
        DedupKey { namespace, key: format!("{OF_SIGNAL}{waitpoint}/{key}").into_boxed_str() }
    }

    /// The name of a node in its flow. It goes with its node.
    pub fn of_node(namespace: Namespace, flow: FlowId, name: &NodeName) -> DedupKey {
        DedupKey { namespace, key: format!("{OF_NODE}{flow}/{}", name.as_str()).into_boxed_str() }
    }

    /// Whether it is the key of a signal. Such a key may outlive its execution by the rest of its day.
    pub fn is_of_signal(&self) -> bool {
        self.key.starts_with(OF_SIGNAL)
    }
}

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dedup {
    pub execution: ExecutionId,
    /// `Ms::MAX`: it stays until its execution goes.
    pub expires_at: Ms,
}

/// A record that decisions are made on and that a cache may hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    Execution(ExecutionId),
    Dedup(DedupKey),
    Lane(LaneName),
    Worker(InstanceId),
    Flow(FlowId),
    Edge(EdgeKey),
    /// The output stream of an execution.
    Stream(ExecutionId),
    /// A key that tokens are signed with.
    SigningKey(u32),
    /// A message in the agenda; the other entries follow from records.
    Message(AgendaKey),
}

/// Something a decision needs to see. All asks of one load are answered at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    Record(Key),
    /// What a runner must know of a partition before it decides anything.
    Opening,
    /// The next ready entries of a lane and class, with their executions.
    Ready {
        lane: LaneName,
        class: Class,
        after: Place,
        limit: usize,
    },
    /// The next entries of a list of a graph, with the edges they stand for and the executions they lead to.
    List {
        list: ListKey,
        after: u64,
        limit: usize,
    },
    /// The entries due after a time, at least `limit` if there are so many, never splitting a millisecond.
    Agenda {
        after: Ms,
        limit: usize,
    },
    /// What the commits after a version have changed, as it is now.
    Changes {
        since: u64,
    },
    /// What is old enough to be removed at `now`.
    Sweep {
        now: Ms,
        events_before: Ms,
        limit: usize,
    },
    /// The posted rows with the lowest numbers: as many as there are, until there are `limit` of them or their
    /// inputs together have `bytes` bytes.
    Inbox {
        limit: usize,
        bytes: usize,
    },
    /// Dead letters with numbers after this one, in their order. A decision asks for the one it is about.
    DeadLetters {
        after: u64,
        limit: usize,
    },
    /// One record of the registry, or all of a kind in the order of their ids.
    Registry {
        kind: RecordKind,
        id: Option<Box<str>>,
    },
}
