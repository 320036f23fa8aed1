//! The answer "not allowed now, because…". A rejection is not an error: the command was understood, decided,
//! and changed nothing.

use std::borrow::Cow;

use serde::Serialize;

use crate::Ms;
use crate::id::ExecutionId;
use crate::name::LaneName;
use crate::state::{PublicState, Reason};

/// A field that does not fit, what is wrong with it and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Rejection {
    #[error("{0}")]
    Invalid(Invalid),
    #[error("there is no {what} {id}")]
    NotFound { what: &'static str, id: String },
    #[error(
        "the same {field} was used for other content by execution {existing}; use a new {field}, or the same content"
    )]
    IdempotencyMismatch { field: &'static str, existing: ExecutionId },
    #[error(
        "the lease on execution {execution}, attempt {attempt}, epoch {epoch} is lost ({reason:?}); stop this attempt"
    )]
    LeaseLost { execution: ExecutionId, attempt: u32, epoch: u64, reason: Lost },
    #[error("execution {execution} has already ended this lease as {how}; that ending stands")]
    AlreadyEnded { execution: ExecutionId, how: String },
    #[error("execution {execution} is {state} ({reason}); only work that has not ended can be changed so")]
    Terminal { execution: ExecutionId, state: PublicState, reason: Reason },
    #[error("execution {execution} is {state}; it can be {verb} only after it has ended")]
    NotTerminal { execution: ExecutionId, state: PublicState, verb: &'static str },
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
            Rejection::AlreadyEnded { .. } => "already_ended",
            Rejection::Terminal { .. } => "terminal",
            Rejection::NotTerminal { .. } => "not_terminal",
            Rejection::NotActive { .. } => "not_active",
            Rejection::ReplaysExhausted { .. } => "replays_exhausted",
            Rejection::LaneDraining { .. } => "lane_draining",
            Rejection::WorkerUnknown { .. } => "worker_unknown",
            Rejection::WorkerDraining { .. } => "worker_draining",
            Rejection::WorkerDead { .. } => "worker_dead",
            Rejection::MessageGap { .. } => "message_gap",
        }
    }
}

impl From<Invalid> for Rejection {
    fn from(invalid: Invalid) -> Self {
        Rejection::Invalid(invalid)
    }
}
