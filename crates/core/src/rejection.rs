//! The answer "not allowed now, because…". A rejection is not an error: the command was understood, decided,
//! and changed nothing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::flow::FlowState;
use crate::id::{ExecutionId, FlowId};
use crate::name::LaneName;
use crate::state::{PublicState, Reason};
use crate::suspension::WaitpointId;

/// A field that does not fit, what is wrong with it and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    pub field: Cow<'static, str>,
    pub problem: String,
}

impl Invalid {
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Self {
        Invalid { field: field.into(), problem: problem.into() }
    }
}

/// Why a lease no longer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    Expired,
    TimedOut,
    Revoked,
    Held,
    Cancelled,
    DeadlinePassed,
    WorkerDied,
    /// A newer lease exists, or this one never did.
    Superseded,
}

/// Why a command is not allowed now, with the facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Rejection {
    #[error("{0}")]
    Invalid(Invalid),
    #[error("there is no {what} {id}")]
    NotFound { what: Cow<'static, str>, id: String },
    #[error(
        "the same {field} was used for other content by execution {existing}; use a new {field}, or the same content"
    )]
    IdempotencyMismatch { field: Cow<'static, str>, existing: ExecutionId },
    #[error(
        "the lease on execution {execution}, attempt {attempt}, epoch {epoch} is lost ({reason:?}); stop this attempt"
    )]
    LeaseLost { execution: ExecutionId, attempt: u32, epoch: u64, reason: Lost },
    #[error("the lease on execution {execution} was renewed until {until}; its worker has it")]
    LeaseRenewed { execution: ExecutionId, until: Ms },
    #[error("execution {execution} has already ended this lease as {how}; that ending stands")]
    AlreadyEnded { execution: ExecutionId, how: String },
    #[error("execution {execution} is {state} ({reason}); only work that has not ended can be changed so")]
    Terminal { execution: ExecutionId, state: PublicState, reason: Reason },
    #[error("execution {execution} is {state}; it can be {verb} only after it has ended")]
    NotTerminal { execution: ExecutionId, state: PublicState, verb: Cow<'static, str> },
    #[error("execution {execution} is {state}; there is no lease to take away")]
    NotActive { execution: ExecutionId, state: PublicState },
    #[error("execution {execution} was replayed {max} times already, the most its policy allows")]
    ReplaysExhausted { execution: ExecutionId, max: u32 },
    #[error("lane {lane} is draining and takes no new work; resume it or use another lane")]
    LaneDraining { lane: LaneName },
    #[error("worker instance {instance} is not registered; register it again")]
    WorkerUnknown { instance: String },
    #[error("worker instance {instance} is draining and takes no new work")]
    WorkerDraining { instance: String },
    #[error("worker instance {instance} was declared dead at {at}; register a new instance")]
    WorkerDead { instance: String, at: Ms },
    #[error("flow {flow} is {state} and takes no more nodes or edges")]
    FlowClosed { flow: FlowId, state: FlowState },
    #[error("flow {flow} has ended as {state}; only a flow that has not ended can be changed so")]
    FlowEnded { flow: FlowId, state: FlowState },
    #[error("the id {flow} was used for another flow; use a new id, or the same content")]
    FlowMismatch { flow: FlowId },
    #[error("flow {flow} was cancelled; {verb} is not possible any more")]
    FlowCancelled { flow: FlowId, verb: Cow<'static, str> },
    #[error("flow {flow} is at revision {revision}, not {expected}; look at it again and repeat the change")]
    RevisionMismatch { flow: FlowId, revision: u64, expected: u64 },
    #[error("execution {execution} is not a member of flow {flow}; an edge joins two members of one flow")]
    OtherFlow { execution: ExecutionId, flow: FlowId },
    #[error("node {node} takes no more inbound edges; add edges with their node, or add the node open")]
    GroupClosed { node: ExecutionId },
    #[error("there is an edge from {upstream} to {downstream} already")]
    DuplicateEdge { upstream: ExecutionId, downstream: ExecutionId },
    #[error("the edge from {upstream} to {downstream} closes a cycle; a flow has none")]
    Cycle { upstream: ExecutionId, downstream: ExecutionId },
    #[error("the policy of node {node} was fixed with its first edge")]
    PolicyFixed { node: ExecutionId },
    #[error("node {node} asks for {k} inbound edges and has {total}; allowed are 1 to {total}")]
    QuorumImpossible { node: ExecutionId, k: u32, total: u32 },
    #[error(
        "execution {execution} was skipped because of others; replay the upstream that did not end as needed"
    )]
    SkippedByOthers { execution: ExecutionId },
    #[error("execution {execution} is a member of flow {flow} and leaves only with it")]
    InFlow { execution: ExecutionId, flow: FlowId },
    #[error("execution {execution} is {state} ({reason}), not suspended; there is nothing to resume")]
    NotSuspended { execution: ExecutionId, state: PublicState, reason: Reason },
    /// One answer for every kind of wrong token.
    #[error("the token is not good for this; it may be mistyped, expired, or made for something else")]
    TokenRefused,
    #[error("execution {execution} has kept {max} signals, the most it may")]
    TooManySignals { execution: ExecutionId, max: usize },
    #[error("waitpoint {waitpoint} has taken {max} signals with its token, the most it may")]
    TooManyTokenSignals { waitpoint: WaitpointId, max: usize },
    #[error("execution {execution} has {max} open waitpoints, the most it may")]
    TooManyWaitpoints { execution: ExecutionId, max: usize },
    #[error("execution {execution} has {max} child executions that have not ended, the most it may")]
    TooManyChildren { execution: ExecutionId, max: usize },
    #[error("the frames begin at {first}; the next frame of this attempt is {expected}")]
    FrameGap { first: u64, expected: u64 },
    #[error("the id {id} was used for another {what}; use a new id")]
    IdUsed { what: Cow<'static, str>, id: Box<str> },
    #[error("there are {max} {what}, the most there may be; remove one first")]
    RegistryFull { what: Cow<'static, str>, max: usize },
    #[error("webhook {webhook} has gone on without this delivery; look where it stands before the next")]
    DeliverySuperseded { webhook: Box<str> },
    #[error("bulk operation {bulk} is carried out by another server, or has ended; look where it stands")]
    BulkSuperseded { bulk: Box<str> },
    #[error("execution {execution} has ended only at {at}, after it was asked for")]
    EndedSince { execution: ExecutionId, at: Ms },
    #[error("message {number} from partition {from} arrived before {expected}; send that one first")]
    MessageGap { from: u16, number: u64, expected: u64 },
}

impl Rejection {
    /// The word under which `docs/errors.md` explains this rejection.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::Invalid(_) => "invalid",
            Rejection::NotFound { .. } => "not_found",
            Rejection::IdempotencyMismatch { .. } => "idempotency_mismatch",
            Rejection::LeaseLost { .. } => "lease_lost",
            Rejection::LeaseRenewed { .. } => "lease_renewed",
            Rejection::AlreadyEnded { .. } => "already_ended",
            Rejection::Terminal { .. } => "terminal",
            Rejection::NotTerminal { .. } => "not_terminal",
            Rejection::NotActive { .. } => "not_active",
            Rejection::ReplaysExhausted { .. } => "replays_exhausted",
            Rejection::LaneDraining { .. } => "lane_draining",
            Rejection::WorkerUnknown { .. } => "worker_unknown",
            Rejection::WorkerDraining { .. } => "worker_draining",
            Rejection::WorkerDead { .. } => "worker_dead",
            Rejection::FlowClosed { .. } => "flow_closed",
            Rejection::FlowEnded { .. } => "flow_ended",
            Rejection::FlowMismatch { .. } => "flow_mismatch",
            Rejection::FlowCancelled { .. } => "flow_cancelled",
            Rejection::RevisionMismatch { .. } => "revision_mismatch",
            Rejection::OtherFlow { .. } => "other_flow",
            Rejection::GroupClosed { .. } => "group_closed",
            Rejection::DuplicateEdge { .. } => "duplicate_edge",
            Rejection::Cycle { .. } => "cycle",
            Rejection::PolicyFixed { .. } => "policy_fixed",
            Rejection::QuorumImpossible { .. } => "quorum_impossible",
            Rejection::SkippedByOthers { .. } => "skipped_by_others",
            Rejection::InFlow { .. } => "in_flow",
            Rejection::NotSuspended { .. } => "not_suspended",
            Rejection::TokenRefused => "token_refused",
            Rejection::TooManySignals { .. } | Rejection::TooManyTokenSignals { .. } => "too_many_signals",
            Rejection::TooManyWaitpoints { .. } => "too_many_waitpoints",
            Rejection::TooManyChildren { .. } => "too_many_children",
            Rejection::FrameGap { .. } => "frame_gap",
            Rejection::IdUsed { .. } => "id_used",
            Rejection::RegistryFull { .. } => "registry_full",
            Rejection::DeliverySuperseded { .. } => "delivery_superseded",
            Rejection::BulkSuperseded { .. } => "bulk_superseded",
            Rejection::EndedSince { .. } => "ended_since",
            Rejection::MessageGap { .. } => "message_gap",
        }
    }
}

impl From<Invalid> for Rejection {
    fn from(invalid: Invalid) -> Self {
        Rejection::Invalid(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_reads_back_from_what_it_is_told_as() {
        let id = ExecutionId(uuid::Uuid::from_u128(7));
        let flow = FlowId(uuid::Uuid::from_u128(8));
        for rejection in [
            Rejection::Invalid(Invalid::new("lane", "has 0 bytes; allowed are 1 to 64")),
            Rejection::NotFound { what: "execution".into(), id: id.to_string() },
            Rejection::LeaseLost { execution: id, attempt: 1, epoch: 2, reason: Lost::Superseded },
            Rejection::NotTerminal { execution: id, state: PublicState::Active, verb: "replayed".into() },
            Rejection::FlowClosed { flow, state: FlowState::Completed },
            Rejection::LaneDraining { lane: LaneName::default() },
            Rejection::TokenRefused,
        ] {
            let told = serde_json::to_value(&rejection).unwrap();
            assert_eq!(told["code"], rejection.code());
            assert_eq!(serde_json::from_value::<Rejection>(told).unwrap(), rejection);
        }
    }
}
