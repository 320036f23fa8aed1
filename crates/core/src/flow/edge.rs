//! A dependency: one member waits for another.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::execution::End;
use crate::id::{ExecutionId, FlowId};
use crate::name::FieldName;
use crate::state::{PublicState, Reason, words};

/// Names an edge by its ends; two nodes have at most one edge between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EdgeKey {
    pub upstream: ExecutionId,
    pub downstream: ExecutionId,
}

words!(
    /// Which endings of its upstream satisfy an edge.
    On {
        Success = "success",
        Failure = "failure",
        Always = "always",
    }
);

impl On {
    /// Whether an upstream that ended so satisfies the edge.
    pub fn accepts(self, ending: Ending) -> bool {
        match self {
            On::Success => ending == Ending::Success,
            On::Failure => ending == Ending::Failure,
            On::Always => true,
        }
    }
}

words!(
    /// How the end of an upstream counts. One that failed, expired or was cancelled by a person is a failure;
    /// one that was cancelled because a join did not need it any more is a loser.
    Ending {
        Success = "success",
        Failure = "failure",
        Loser = "loser",
        Skip = "skip",
    }
);

impl Ending {
    pub fn of(end: &End) -> Ending {
        match (end.state, end.reason) {
            (PublicState::Completed, _) => Ending::Success,
            (PublicState::Skipped, _) => Ending::Skip,
            (_, Reason::SiblingQuorumSatisfied | Reason::SiblingQuorumImpossible) => Ending::Loser,
            _ => Ending::Failure,
        }
    }
}

words!(
    /// What an edge is for the group it belongs to. One that is lost can never be satisfied any more.
    EdgeState {
        Pending = "pending",
        Satisfied = "satisfied",
        Lost = "lost",
    }
);

/// A dependency as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    #[serde(flatten)]
    pub key: EdgeKey,
    pub flow: FlowId,
    /// From 1 within its flow, in the order in which edges were added.
    pub number: u64,
    pub on: On,
    /// Under which name the downstream's input gets the upstream's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldName>,
    /// How the end of the upstream has been counted in the downstream's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Ending>,
    /// Whether it is counted among those that still need the upstream.
    #[serde(default)]
    pub needed: bool,
    /// Whether it was satisfied when the downstream's group was decided, so that its result is passed.
    #[serde(default)]
    pub passes: bool,
    pub created_at: Ms,
    pub created_by: Box<str>,
}

impl Edge {
    pub fn state(&self) -> EdgeState {
        match self.counted {
            None => EdgeState::Pending,
            Some(ending) if self.on.accepts(ending) => EdgeState::Satisfied,
            Some(_) => EdgeState::Lost,
        }
    }
}
