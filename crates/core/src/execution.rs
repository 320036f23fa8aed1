//! An execution: what it is, where it stands, and the times that will move it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::attempt::{Attempt, TaskError};
use crate::class::{Capabilities, Class};
use crate::flow::{Member, Node};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::name::{Kind, LaneName, Namespace, NodeName, WorkerName};
use crate::policy::{Policy, is_default};
use crate::ready::{Place, ReadyEntry};
use crate::rejection::{Lost, Rejection};
use crate::state::{PublicState, Reason};
use crate::suspension::{Mailbox, Suspension};
use crate::tags::Tags;

/// How many endings of leases an execution remembers, so that a repeated call gets its first reply.
const ENDINGS_KEPT: usize = 32;

/// Tells apart two submissions under one id or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentDigest(pub u64);

/// What was asked for. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub namespace: Namespace,
    pub kind: Kind,
    pub lane: LaneName,
    #[serde(default, skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: Policy,
    pub created_at: Ms,
    /// The deadline as a length, because a replay starts it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Box<str>>,
    /// The execution outlives its idempotency window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_until: Option<Ms>,
    pub digest: ContentDigest,
    pub input_bytes: u64,
    /// What it is in its flow, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Box<Member>>,
    /// The execution that started it and waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
}

impl Spec {
    /// Whether this is the class it belongs to, without making one.
    pub fn is_of(&self, class: &Class) -> bool {
        self.kind == class.kind
            && self.namespace == class.namespace
            && self.capabilities == class.capabilities
    }

    pub fn class(&self) -> Class {
        Class {
            namespace: self.namespace.clone(),
            kind: self.kind.clone(),
            capabilities: self.capabilities.clone(),
        }
    }
}

/// An operator's or caller's wish to cancel, kept from the first time it was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    pub actor: Box<str>,
    pub cause: Box<str>,
    pub at: Ms,
}

/// A cancel that a running worker has been asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    pub cancellation: Cancellation,
    /// When the worker is cut off.
    pub cut_at: Ms,
}

/// A worker's right to act on the current attempt until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub worker: WorkerName,
    pub instance: InstanceId,
    pub acquired_at: Ms,
    pub expires_at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub state: PublicState,
    pub reason: Reason,
    pub at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Cancellation>,
    /// The upstream whose ending made its group impossible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<ExecutionId>,
    /// When retention may remove every trace of it; a member leaves with its flow.
    pub remove_at: Ms,
}

/// Where an execution stands. A lease exists only while active, an end only when ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    Ready {
        rank: i64,
        number: u64,
        since: Ms,
    },
    Delayed {
        until: Ms,
        reason: Reason,
    },
    /// A member that other members will move.
    Blocked {
        reason: Reason,
    },
    Active(Lease),
    /// Parked by its worker until something happens outside.
    Suspended(Box<Suspension>),
    Held {
        actor: Box<str>,
        cause: Box<str>,
        at: Ms,
        until: Option<Ms>,
        reason: Option<Reason>,
        /// What it goes on waiting for when it is unheld.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspension: Option<Box<Suspension>>,
    },
    Ended(End),
}

/// How a lease ended, for the worker that calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Completed,
    Failed {
        retry_at: Option<Ms>,
    },
    Delayed {
        until: Ms,
    },
    Released,
    Suspended,
    /// The worker ended it, in whatever way, while a cancel was asked for.
    Cancelled,
    Lost(Lost),
}

impl How {
    pub fn word(self) -> &'static str {
        match self {
            How::Completed => "completed",
            How::Failed { .. } => "failed",
            How::Delayed { .. } => "delayed",
            How::Released => "released",
            How::Suspended => "suspended",
            How::Cancelled => "cancelled",
            How::Lost(_) => "lost",
        }
    }
}

/// The end of one lease, by its fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEnding {
    pub attempt: u32,
    pub epoch: u64,
    pub how: How,
}

/// The attempts since creation or the newest replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// From 1; one more with each replay.
    pub number: u32,
    /// Attempts that count against the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent: u32,
    /// Leases lost in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub losses: u32,
    pub since: Ms,
}

/// What changes while an execution lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i8,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    pub state: State,
    pub epoch: u64,
    pub series: Series,
    /// The newest attempt, running or ended. Older ones are archived when a new one starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Ms>,
    /// When its one timer entry in the agenda is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Ms>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endings: Vec<LeaseEnding>,
    /// What it waits for in its flow, and who waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<Node>>,
    /// What has arrived for it; absent until it first waits or is signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Box<Mailbox>>,
    /// Whether steps are recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stepped: bool,
    /// Whether it has an output stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
    pub changed_at: Ms,
}

/// An execution as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub id: ExecutionId,
    pub spec: Arc<Spec>,
    pub live: Live,
}

/// A time limit that stands beside an execution's mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    Deadline,
    CancelGrace,
    AttemptTimeout,
    LeaseExpiry,
    ScheduleToStart,
    Wake,
    SuspensionTimeout,
    WaitpointExpiry,
}

/// What every call of a worker carries: which lease it speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub execution: ExecutionId,
    pub attempt: u32,
    pub epoch: u64,
}

impl Execution {
    pub fn public_state(&self) -> PublicState {
        match &self.live.state {
            State::Ready { .. } | State::Held { .. } => PublicState::Waiting,
            State::Delayed { .. } | State::Blocked { reason: Reason::Hedge } => PublicState::Delayed,
            State::Blocked { .. } => PublicState::WaitingChildren,
            State::Active(_) => PublicState::Active,
            State::Suspended(_) => PublicState::Suspended,
            State::Ended(end) => end.state,
        }
    }

    pub fn reason(&self) -> Reason {
        match &self.live.state {
            State::Ready { .. } => Reason::WaitingForWorker,
            State::Held { .. } => Reason::PausedByOperator,
            State::Delayed { reason, .. } | State::Blocked { reason } => *reason,
            State::Active(lease) if lease.cancel.is_some() => Reason::CancelRequested,
            State::Active(_) => Reason::Running,
            State::Suspended(suspension) => suspension.reason,
            State::Ended(end) => end.reason,
        }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.live.state {
            State::Active(lease) => Some(lease),
            _ => None,
        }
    }

    /// What it waits for, also while an operator holds it.
    pub fn suspension(&self) -> Option<&Suspension> {
        match &self.live.state {
            State::Suspended(suspension) => Some(suspension),
            State::Held { suspension, .. } => suspension.as_deref(),
            _ => None,
        }
    }

    pub fn mailbox(&self) -> Option<&Mailbox> {
        self.live.mailbox.as_deref()
    }

    /// Its mailbox, made if it has none.
    pub fn mailbox_mut(&mut self) -> &mut Mailbox {
        self.live.mailbox.get_or_insert_default()
    }

    pub fn end(&self) -> Option<&End> {
        match &self.live.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Whether nobody will look at it to decide anything. The end of a member matters to its flow, that of a parent to
    /// the children it has left behind.
    pub fn is_over(&self) -> bool {
        self.end().is_some() && self.spec.member.is_none() && !self.has_children()
    }

    /// Whether child executions of it have not ended.
    pub fn has_children(&self) -> bool {
        self.mailbox().is_some_and(|mailbox| !mailbox.children.is_empty())
    }

    pub fn attempt_number(&self) -> u32 {
        self.live.attempt.as_ref().map_or(0, |attempt| attempt.number)
    }

    /// The fence of the lease that stands.
    pub fn fence(&self) -> Fence {
        Fence { execution: self.id, attempt: self.attempt_number(), epoch: self.live.epoch }
    }

    /// Its place in the queue of its lane and class, while it is ready.
    pub fn place(&self) -> Option<Place> {
        match self.live.state {
            State::Ready { rank, number, .. } => Some(Place { rank, number }),
            _ => None,
        }
    }

    /// Its entry in the ready queue, while it is ready.
    pub fn ready_entry(&self) -> Option<ReadyEntry> {
        let Place { rank, number } = self.place()?;
        let (lane, class) = (self.spec.lane.clone(), self.spec.class());
        Some(ReadyEntry { lane, class, rank, number, execution: self.id })
    }

    pub fn flow(&self) -> Option<FlowId> {
        self.spec.member.as_ref().map(|member| member.flow)
    }

    /// What it is called in its flow.
    pub fn node_name(&self) -> Option<&NodeName> {
        self.spec.member.as_ref().and_then(|member| member.name.as_ref())
    }

    /// Whether it has ended with a result of its own or that of the flow it stands for.
    pub fn has_result(&self) -> bool {
        let of_flow = |end: &End| self.child_flow().is_some() && end.state == PublicState::Completed;
        self.end().is_some_and(|end| end.result_bytes.is_some() || of_flow(end))
    }

    /// The flow it stands for, if it is a child flow.
    pub fn child_flow(&self) -> Option<FlowId> {
        self.spec.member.as_ref().and_then(|member| member.child)
    }

    pub fn node(&self) -> Option<&Node> {
        self.live.node.as_deref()
    }

    /// Checks that a worker's call speaks for the lease that stands now.
    pub fn check_fence(&self, fence: Fence) -> Result<&Lease, Rejection> {
        match self.lease() {
            Some(lease) if self.fence() == fence => Ok(lease),
            _ => Err(self.refuse_fence(fence)),
        }
    }

    /// The ending that this fence has already had.
    pub fn ending_of(&self, fence: Fence) -> Option<How> {
        let same = |ending: &&LeaseEnding| ending.attempt == fence.attempt && ending.epoch == fence.epoch;
        self.live.endings.iter().rev().find(same).map(|ending| ending.how)
    }

    /// Whether the lease of this fence was ended by its holder, and not taken away.
    pub fn was_given_up(&self, fence: Fence) -> bool {
        self.ending_of(fence).is_some_and(|how| !matches!(how, How::Lost(_)))
    }

    /// Whether an instance that has held its lease should look at it: it was taken away, is another's, or is to be ended.
    pub fn concerns(&self, holder: InstanceId) -> bool {
        match self.lease() {
            Some(lease) => lease.instance != holder || lease.cancel.is_some(),
            None => !self.was_given_up(self.fence()),
        }
    }

    fn refuse_fence(&self, fence: Fence) -> Rejection {
        match self.ending_of(fence) {
            Some(How::Lost(reason)) => self.lease_lost(fence, reason),
            Some(how) => Rejection::AlreadyEnded { execution: self.id, how: how.word().to_owned() },
            None => self.lease_lost(fence, Lost::Superseded),
        }
    }

    fn lease_lost(&self, fence: Fence, reason: Lost) -> Rejection {
        Rejection::LeaseLost { execution: self.id, attempt: fence.attempt, epoch: fence.epoch, reason }
    }

    pub fn remember_ending(&mut self, how: How) {
        let Fence { attempt, epoch, .. } = self.fence();
        if self.live.endings.len() == ENDINGS_KEPT {
            self.live.endings.remove(0);
        }
        self.live.endings.push(LeaseEnding { attempt, epoch, how });
    }

    /// Every time limit that stands now.
    pub fn guards(&self) -> impl Iterator<Item = (Ms, Guard)> {
        let policy = &self.spec.policy;
        let ended = self.end().is_some();
        let deadline = self.live.deadline_at.filter(|_| !ended).map(|at| (at, Guard::Deadline));
        let own: [Option<(Ms, Guard)>; 3] = match &self.live.state {
            State::Ready { since, .. } => {
                let limit =
                    policy.schedule_to_start_ms.map(|ms| (since.saturating_add(ms), Guard::ScheduleToStart));
                [limit, None, None]
            }
            State::Delayed { until, .. } => [Some((*until, Guard::Wake)), None, None],
            State::Active(lease) => {
                let used = self.live.attempt.as_ref().map_or(0, |attempt| attempt.leased_ms);
                [
                    Some((lease.expires_at.saturating_add(policy.lease_grace_ms), Guard::LeaseExpiry)),
                    policy
                        .attempt_timeout_ms
                        .map(|ms| (lease.acquired_at.saturating_add(ms) - used, Guard::AttemptTimeout)),
                    lease.cancel.as_ref().map(|cancel| (cancel.cut_at, Guard::CancelGrace)),
                ]
            }
            State::Suspended(suspension) => {
                [suspension.timeout_at.map(|at| (at, Guard::SuspensionTimeout)), None, None]
            }
            State::Blocked { .. } | State::Held { .. } | State::Ended(_) => [None, None, None],
        };
        let open = self.mailbox().filter(|_| !ended).and_then(Mailbox::next_expiry);
        let expiry = open.map(|at| (at, Guard::WaitpointExpiry));
        own.into_iter().flatten().chain(deadline).chain(expiry)
    }

    /// The limit that acts first.
    pub fn earliest_guard(&self) -> Option<(Ms, Guard)> {
        self.guards().min()
    }

    /// Makes the one timer entry right: there is one exactly while a guard stands, due no later than the
    /// earliest. It is only ever moved earlier; an entry that fires too soon is armed again.
    pub fn settle_timer(&mut self) {
        self.live.timer = match (self.live.timer, self.earliest_guard()) {
            (_, None) => None,
            (Some(timer), Some((due, _))) => Some(timer.min(due)),
            (None, Some((due, _))) => Some(due),
        };
    }
}
