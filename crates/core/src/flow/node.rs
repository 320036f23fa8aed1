//! A member's place in its flow: what it waits for, and who waits for it.

use serde::{Deserialize, Serialize};

use super::edge::{EdgeState, Ending};
use crate::Ms;
use crate::id::{ExecutionId, FlowId};
use crate::name::NodeName;
use crate::policy::is_default;
use crate::state::{Reason, words};

/// What an execution is in its flow. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub flow: FlowId,
    /// From 1 within its flow, in the order in which nodes were added.
    pub number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NodeName>,
    /// It does not start before this, however early its dependencies are satisfied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Ms>,
    /// It is a spare for another: it starts when that one has run for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Hedge>,
    /// The flow it stands for: it waits for that one instead of a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<FlowId>,
    /// The node that its own flow stands for in the flow around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// The spare for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<ExecutionId>,
}

/// When a spare starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hedge {
    pub previous: ExecutionId,
    /// How long the previous one may run before this one starts too.
    pub delay_ms: Ms,
}

words!(
    /// What the child flow of a node is doing.
    ChildState {
        Waits = "waits",
        Moves = "moves",
        Rests = "rests",
        Over = "over",
    }
);

impl ChildState {
    /// Whether it has begun and is not over.
    pub fn is_open(self) -> bool {
        matches!(self, ChildState::Moves | ChildState::Rests)
    }
}

words!(
    /// What becomes of upstreams that a satisfied or impossible join does not need any more.
    OnSatisfied {
        CancelRemaining = "cancel_remaining",
        LetRun = "let_run",
    }
);

/// How many inbound edges must be satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum Join {
    #[default]
    AllOf,
    AnyOf {
        on_satisfied: OnSatisfied,
    },
    Quorum {
        k: u32,
        on_satisfied: OnSatisfied,
    },
}

impl Join {
    /// How many of `total` edges must be satisfied.
    pub fn need(self, total: u32) -> u32 {
        match self {
            Join::AllOf => total,
            Join::AnyOf { .. } => 1,
            Join::Quorum { k, .. } => k,
        }
    }

    /// Whether upstreams that are not needed any more are cancelled.
    pub fn cancels(self) -> bool {
        use OnSatisfied::CancelRemaining;
        matches!(
            self,
            Join::AnyOf { on_satisfied: CancelRemaining }
                | Join::Quorum { on_satisfied: CancelRemaining, .. }
        )
    }

    /// Whether it can be satisfied although an upstream failed, which is then nobody's failure.
    pub fn absorbs(self) -> bool {
        self != Join::AllOf
    }
}

words!(
    /// Where a group stands.
    GroupState {
        Waiting = "waiting",
        Satisfied = "satisfied",
        Impossible = "impossible",
    }
);

/// The inbound edges of a node, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: Join,
    pub state: GroupState,
    #[serde(default, skip_serializing_if = "is_default")]
    pub total: u32,
    /// How many of them pass a result under a name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub named: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub satisfied: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u32,
    /// How the upstreams that have ended did so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub succeeded: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: u32,
}

impl Group {
    pub fn new(join: Join) -> Group {
        Group {
            join,
            state: GroupState::Waiting,
            total: 0,
            named: 0,
            satisfied: 0,
            lost: 0,
            succeeded: 0,
            failed: 0,
            skipped: 0,
        }
    }

    /// Edges whose upstream has not ended.
    pub fn pending(&self) -> u32 {
        self.total - self.satisfied - self.lost
    }

    /// Whether its policy asks for more edges than there are.
    pub fn is_short(&self) -> bool {
        self.join.need(self.total) > self.total
    }

    /// What its counters say, once no more edges can come.
    pub fn verdict(&self) -> GroupState {
        let need = self.join.need(self.total);
        if self.satisfied >= need {
            GroupState::Satisfied
        } else if self.satisfied + self.pending() < need {
            GroupState::Impossible
        } else {
            GroupState::Waiting
        }
    }

    /// Counts an edge in, or out again.
    pub(crate) fn count(&mut self, ending: Ending, state: EdgeState, way: Way) {
        let step = |count: &mut u32| match way {
            Way::In => *count += 1,
            Way::Out => *count -= 1,
        };
        match ending {
            Ending::Success => step(&mut self.succeeded),
            Ending::Failure | Ending::Loser => step(&mut self.failed),
            Ending::Skip => step(&mut self.skipped),
        }
        match state {
            EdgeState::Satisfied => step(&mut self.satisfied),
            EdgeState::Lost => step(&mut self.lost),
            EdgeState::Pending => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// How far a node's news has been passed on to its neighbours, where that takes more than one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passing {
    pub since: Ms,
    /// The number of the last edge visited among those to its downstreams; absent when that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<u64>,
    /// The same among those from its upstreams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<u64>,
}

/// What changes of a member's place while its flow lives. It is written with each move of the member, so what most
/// members do not have is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Grows along edges, never falls: a path back can only be among equal levels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: u32,
    /// It may still get inbound edges, so nothing is decided about it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: bool,
    pub group: Group,
    /// How many nodes depend on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependents: u32,
    /// How many of them are undecided and count on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needed: u32,
    /// Why a join wants it cancelled as soon as no other needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwanted: Option<Reason>,
    /// A join that it feeds was satisfied without it, so its failure is not the flow's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub absorbed: bool,
    /// It is counted among the failures of its flow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure: bool,
    /// From when on its hedge lets it start; absent until the one before it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge_until: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passing: Option<Passing>,
    /// As what its child flow is counted in its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildState>,
}

impl Node {
    pub fn new(join: Join, open: bool) -> Node {
        Node {
            level: 0,
            open,
            group: Group::new(join),
            dependents: 0,
            needed: 0,
            unwanted: None,
            absorbed: false,
            failure: false,
            hedge_until: None,
            passing: None,
            child: None,
        }
    }
}
