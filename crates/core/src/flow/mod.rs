//! A flow: a graph of executions that live in one partition and are joined by dependency edges.
//!
//! The flow's own record says what it is, how far it is built, how many members stand where, and how it ended.
//! Each member is an ordinary execution that also has a [`Node`]; each dependency is an [`Edge`].

mod edge;
pub mod inputs;
mod node;
pub mod recount;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use edge::{Edge, EdgeKey, EdgeState, Ending, On};
pub(crate) use node::Way;
pub use node::{ChildState, Group, GroupState, Hedge, Join, Member, Node, OnSatisfied, Passing};

use crate::Ms;
use crate::execution::{Cancellation, ContentDigest, Execution, State};
use crate::id::{ExecutionId, FlowId};
use crate::name::{Kind, Namespace};
use crate::policy::is_default;
use crate::state::{PublicState, Reason, words};
use crate::tags::Tags;

words!(
    /// Where a flow stands. Derived from its record, never set by hand.
    FlowState {
        Open = "open",
        Running = "running",
        Blocked = "blocked",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
);

impl FlowState {
    pub fn is_terminal(self) -> bool {
        matches!(self, FlowState::Completed | FlowState::Failed | FlowState::Cancelled)
    }
}

words!(
    /// What cancelling a flow does to its members, from the mildest to the strictest.
    CancelPolicy {
        FlowOnly = "flow_only",
        CancelPending = "cancel_pending",
        CancelAll = "cancel_all",
    }
);

/// What was asked for. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    pub namespace: Namespace,
    pub kind: Kind,
    pub created_at: Ms,
    pub created_by: Box<str>,
    pub digest: ContentDigest,
    /// The node it stands for in another flow, and how many flows are around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    #[serde(default)]
    pub depth: u8,
}

/// How many members stand in each public state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Summary(BTreeMap<PublicState, u64>);

impl Summary {
    pub fn get(&self, state: PublicState) -> u64 {
        self.0.get(&state).copied().unwrap_or(0)
    }

    /// Every state that has members, with how many.
    pub fn iter(&self) -> impl Iterator<Item = (PublicState, u64)> {
        self.0.iter().map(|(state, count)| (*state, *count))
    }

    /// Members that have not ended.
    pub fn live(&self) -> u64 {
        self.iter().filter(|(state, _)| !state.is_terminal()).map(|(_, count)| count).sum()
    }

    pub fn add(&mut self, state: PublicState) {
        *self.0.entry(state).or_default() += 1;
    }

    pub fn remove(&mut self, state: PublicState) {
        let left = self.get(state).saturating_sub(1);
        if left == 0 {
            self.0.remove(&state);
        } else {
            self.0.insert(state, left);
        }
    }
}

/// That a flow was cancelled, as it was said first; the policy is the strictest that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCancel {
    pub policy: CancelPolicy,
    pub by: Cancellation,
}

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEnd {
    pub state: FlowState,
    pub at: Ms,
    /// When retention may remove it with all its members; a child flow leaves with its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_at: Option<Ms>,
}

/// A way through the members that is taken in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    pub since: Ms,
    /// The number of the last member that was visited.
    pub after: u64,
    /// Members that did not complete run again.
    #[serde(default)]
    pub revive: bool,
}

impl FlowLive {
    /// Every member is visited, also those that a way which is not at its end has passed.
    pub(crate) fn visit_all(&mut self, now: Ms) {
        let revive = self.walk.is_some_and(|walk| walk.revive);
        self.walk = Some(Walk { since: now, after: 0, revive });
    }
}

/// What changes while a flow lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLive {
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Grows with each change of the graph.
    pub revision: u64,
    /// Nothing is added from outside any more.
    pub sealed: bool,
    /// How many nodes and edges it has; the newest of each has this number.
    pub nodes: u64,
    pub edges: u64,
    pub summary: Summary,
    /// Members that wait for an operator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: u64,
    /// Nodes that may still get inbound edges.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_nodes: u64,
    /// Those of them whose policy asks for more edges than there are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub short_groups: u64,
    /// Members whose ending or decision is still being passed on to their neighbours.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passing: u64,
    /// Members whose failure no join has absorbed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u64,
    /// A child flow whose node's turn has not come: nothing of it starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: bool,
    /// Members that are child flows which have begun and are not over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub children: u64,
    /// Those of them in which something can move.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moving_children: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<FlowCancel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// The names of its nodes can be looked up one by one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub names_kept: bool,
    /// Until when the last of its members asks to be kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_until: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<FlowEnd>,
    pub changed_at: Ms,
}

/// A flow as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    pub id: FlowId,
    pub spec: Arc<FlowSpec>,
    pub live: FlowLive,
}

impl Flow {
    /// A flow without members.
    pub fn new(id: FlowId, spec: FlowSpec, tags: Tags, sealed: bool) -> Flow {
        let live = FlowLive {
            tags,
            revision: 1,
            sealed,
            nodes: 0,
            edges: 0,
            summary: Summary::default(),
            held: 0,
            open_nodes: 0,
            short_groups: 0,
            passing: 0,
            failures: 0,
            waits: false,
            children: 0,
            moving_children: 0,
            cancel: None,
            walk: None,
            names_kept: false,
            keep_until: 0,
            end: None,
            changed_at: spec.created_at,
        };
        Flow { id, spec: Arc::new(spec), live }
    }

    pub fn state(&self) -> FlowState {
        let live = &self.live;
        if let Some(end) = &live.end {
            return end.state;
        }
        if !live.sealed {
            return FlowState::Open;
        }
        if self.moves() { FlowState::Running } else { FlowState::Blocked }
    }

    /// Whether something happens in it without a signal from outside or a time that comes.
    fn moves(&self) -> bool {
        let live = &self.live;
        let moving = live.summary.get(PublicState::Active) + live.summary.get(PublicState::Waiting);
        let members = moving > live.held || live.moving_children > 0;
        live.end.is_none() && (members || live.passing > 0 || live.walk.is_some())
    }

    /// What it is to the flow it is a part of.
    pub fn child_state(&self) -> ChildState {
        if self.live.end.is_some() {
            ChildState::Over
        } else if self.live.waits {
            ChildState::Waits
        } else if self.moves() {
            ChildState::Moves
        } else {
            ChildState::Rests
        }
    }

    /// Whether members are being cancelled: from then on none of those that have not started starts.
    pub fn cancels_members(&self) -> bool {
        self.live.cancel.as_ref().is_some_and(|cancel| cancel.policy > CancelPolicy::FlowOnly)
    }

    /// Whether its cancellation reaches this member.
    pub fn cancels(&self, member: &Execution) -> bool {
        let Some(cancel) = &self.live.cancel else { return false };
        match cancel.policy {
            CancelPolicy::FlowOnly => false,
            CancelPolicy::CancelPending => {
                member.live.attempt.is_none() && member.reason() != Reason::ChildFlow
            }
            CancelPolicy::CancelAll => true,
        }
    }

    /// Whether everything that can happen in it has happened.
    pub fn is_over(&self) -> bool {
        let live = &self.live;
        let rests = live.passing == 0 && live.walk.is_none() && live.children == 0;
        live.sealed && !live.waits && live.summary.live() == 0 && rests
    }

    /// How it ends when it is over.
    pub fn outcome(&self) -> FlowState {
        if self.live.cancel.is_some() {
            FlowState::Cancelled
        } else if self.live.failures > 0 {
            FlowState::Failed
        } else {
            FlowState::Completed
        }
    }
}

/// What a member is to its flow's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub state: PublicState,
    pub held: bool,
}

impl Standing {
    pub fn of(execution: &Execution) -> Standing {
        let held = matches!(execution.live.state, State::Held { .. });
        Standing { state: execution.public_state(), held }
    }
}

/// One of the ordered lists a graph is walked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKey {
    /// The members of a flow, by their numbers.
    Members(FlowId),
    /// What depends on a node, by the numbers of the edges.
    Downstream(ExecutionId),
    /// What a node depends on, by the numbers of the edges.
    Upstream(ExecutionId),
}
