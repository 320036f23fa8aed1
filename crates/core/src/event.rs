//! Facts: what happened, in the order in which it happened in its partition.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::attempt::TaskError;
use crate::flow::{CancelPolicy, FlowState, Join};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::lane::LaneMode;
use crate::name::{Kind, LaneName, Namespace, SignalName, StepName, WorkerName};
use crate::registry::{BulkVerb, Role};
use crate::state::{AttemptOutcome, Reason, words};
use crate::suspension::{Effect, ResumedBy, Via};
use crate::tags::Tags;

words!(
    /// What an event is about, for filters.
    Family {
        Execution = "execution",
        Lease = "lease",
        Flow = "flow",
        Signal = "signal",
        Operator = "operator",
    }
);

words!(
    /// Why a waitpoint takes no more signals.
    Closing {
        Resumed = "resumed",
        Expired = "expired",
        Ended = "ended",
    }
);

/// A fact with its number, its time and what filters look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Gapless within its partition, from 1.
    pub number: u64,
    pub at: Ms,
    /// What it is about; absent for lanes and workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The flow it is about, or the one its execution is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    #[serde(flatten)]
    pub fact: Fact,
}

/// Who holds or held a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub worker: WorkerName,
    pub instance: InstanceId,
    pub attempt: u32,
    pub epoch: u64,
}

/// Who did something, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    pub actor: Arc<str>,
    pub cause: Arc<str>,
}

impl By {
    pub fn new(actor: &str, cause: &str) -> By {
        By { actor: Arc::from(actor), cause: Arc::from(cause) }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Fact {
    Created {
        kind: Kind,
        priority: i8,
        until: Option<Ms>,
        /// A member that other members will move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocked: Option<Reason>,
    },
    /// What a member waited for in its flow is there: it may start, at once or after a while.
    Admitted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Ms>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// A member waits for other members again.
    Blocked {
        reason: Reason,
    },
    /// What a member waited for can never be there.
    Skipped {
        reason: Reason,
        upstream: Option<ExecutionId>,
    },
    /// A delay has run out.
    Woken,
    Started {
        attempt: u32,
        epoch: u64,
        series: u32,
    },
    Completed {
        attempt: u32,
        spent: u32,
    },
    /// The attempt is over and another will follow.
    Retried {
        attempt: u32,
        outcome: AttemptOutcome,
        until: Ms,
        spent: u32,
        losses: u32,
        error: Option<TaskError>,
    },
    /// A lease was given back or taken away; the work waits for a worker again.
    Requeued {
        attempt: u32,
        outcome: AttemptOutcome,
    },
    /// The worker put the rest off.
    Delayed {
        until: Ms,
    },
    CancelRequested {
        by: By,
        cut_at: Ms,
    },
    Failed {
        reason: Reason,
        spent: u32,
        losses: u32,
        error: Option<TaskError>,
    },
    Cancelled {
        by: By,
        /// Absent if somebody asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    Expired {
        reason: Reason,
        spent: u32,
        losses: u32,
    },
    Replayed {
        by: By,
        series: u32,
        /// A member that other members will move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocked: Option<Reason>,
    },
    /// Every trace of it is gone.
    Removed {
        /// Absent if its time had come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
    },

    LeaseAcquired {
        holder: Holder,
    },
    /// Acquired by somebody else after the previous holder lost it.
    LeaseReclaimed {
        holder: Holder,
    },
    LeaseRenewed {
        holder: Holder,
        expires_at: Ms,
    },
    LeaseExpired {
        holder: Holder,
    },
    LeaseRevoked {
        holder: Holder,
        by: By,
    },
    LeaseReleased {
        holder: Holder,
        cause: AttemptOutcome,
    },
    /// Given back because the worker put the rest off.
    LeasePaused {
        holder: Holder,
    },

    /// Parked until something happens outside; the same attempt goes on then.
    Suspended {
        reason: Reason,
        until: Option<Ms>,
    },
    /// A suspension is over.
    Resumed {
        by: ResumedBy,
        /// The numbers of the signals that satisfied it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        signals: Vec<u32>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        children: Vec<ExecutionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operator: Option<By>,
    },
    /// A suspension has lasted too long; somebody has to look at it.
    Escalated,
    ChildStarted {
        child: ExecutionId,
    },
    /// The steps an attempt called are not those that were recorded.
    StepsDrifted {
        attempt: u32,
        /// Recorded steps that were not called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<StepName>,
        /// Steps that were called before recorded ones and are not among them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        extra: Vec<StepName>,
        /// Recorded steps that were called in another order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reordered: Vec<StepName>,
    },

    WaitpointOpened {
        waitpoint: u32,
        name: Option<SignalName>,
        expires_at: Option<Ms>,
        /// What its token can be recognised by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Box<str>>,
    },
    WaitpointClosed {
        waitpoint: u32,
        why: Closing,
    },
    /// The token of a waitpoint was made again. Never with the token.
    WaitpointTokenIssued {
        waitpoint: u32,
        by: By,
        /// What the token can be recognised by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Box<str>>,
    },
    SignalReceived {
        /// Its number among the signals of its execution; the event has a number of its own.
        #[serde(rename = "signal")]
        number: u32,
        name: Option<SignalName>,
        waitpoint: Option<u32>,
        source: Option<Box<str>>,
        /// Who sent it, as the server has found out; the source is what it says of itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Box<str>>,
        /// What let it in, if something had to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
        #[serde(flatten)]
        effect: Effect,
    },

    FlowCreated {
        kind: Kind,
        nodes: u64,
        edges: u64,
        sealed: bool,
        by: Arc<str>,
    },
    FlowGrown {
        nodes: u64,
        edges: u64,
        revision: u64,
        by: Arc<str>,
    },
    /// Nothing is added from outside any more.
    FlowSealed {
        by: By,
        revision: u64,
    },
    /// One node takes no more inbound edges.
    NodeSealed {
        by: By,
        revision: u64,
    },
    PolicySet {
        by: By,
        join: Join,
        revision: u64,
    },
    FlowCancelRequested {
        by: By,
        policy: CancelPolicy,
    },
    FlowEnded {
        state: FlowState,
    },
    /// A member of an ended flow runs again, or the node of a child flow that was cancelled with it.
    FlowReopened,
    FlowTagged {
        by: By,
        /// All tags as they are now.
        #[serde(rename = "now")]
        tags: Tags,
    },
    /// Every trace of it is gone.
    FlowRemoved,

    Held {
        by: By,
    },
    Unheld {
        by: By,
        until: Option<Ms>,
        reason: Option<Reason>,
    },
    PriorityChanged {
        by: By,
        priority: i8,
    },
    Tagged {
        by: By,
        /// All tags as they are now; under another name than the tags that every event carries.
        #[serde(rename = "now")]
        tags: Tags,
    },
    /// New tokens are signed with another key.
    KeyRotated {
        by: By,
        key: u32,
        /// From when on tokens of older keys are refused.
        retires_at: Ms,
    },
    /// Never with its secret or the hash of that.
    TokenCreated {
        by: By,
        token: Box<str>,
        name: Box<str>,
        role: Role,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        namespaces: Vec<Namespace>,
        see_payloads: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Ms>,
    },
    TokenRevoked {
        by: By,
        token: Box<str>,
        name: Box<str>,
    },
    /// A webhook was made or changed.
    WebhookSet {
        by: By,
        webhook: Box<str>,
        /// The server it goes to; the rest of the address may be secret.
        target: Box<str>,
        paused: bool,
        revision: u64,
    },
    WebhookRemoved {
        by: By,
        webhook: Box<str>,
    },
    /// A bulk operation has begun; what it does to executions are events of theirs.
    BulkStarted {
        by: By,
        bulk: Box<str>,
        verb: BulkVerb,
    },
    BulkStopped {
        by: By,
        bulk: Box<str>,
    },
    BulkFinished {
        bulk: Box<str>,
        seen: u64,
        done: u64,
        failed: u64,
    },
    LaneChanged {
        by: By,
        mode: LaneMode,
        revision: u64,
    },
    WorkerRegistered {
        worker: WorkerName,
        instance: InstanceId,
    },
    WorkerDrained {
        worker: WorkerName,
        instance: InstanceId,
        by: By,
    },
    WorkerDied {
        worker: WorkerName,
        instance: InstanceId,
        by: By,
    },
    /// A posted row could not become an execution and was put aside.
    DeadLettered {
        /// Its number in the inbox.
        posted: u64,
        /// The id it was to have, if it said one; under another name than the execution that events are about.
        id: Option<ExecutionId>,
        kind: Arc<str>,
        reason: Arc<str>,
    },
    /// A dead letter is back in the inbox.
    LetterReposted {
        by: By,
        posted: u64,
        id: Option<ExecutionId>,
        kind: Arc<str>,
    },
    /// A dead letter is gone for good.
    LetterDropped {
        by: By,
        posted: u64,
        id: Option<ExecutionId>,
        kind: Arc<str>,
    },
}

impl Fact {
    /// The words of all facts.
    pub const WORDS: &'static [&'static str] = &[
        "created",
        "woken",
        "started",
        "completed",
        "retried",
        "requeued",
        "delayed",
        "cancel_requested",
        "failed",
        "cancelled",
        "expired",
        "replayed",
        "removed",
        "admitted",
        "blocked",
        "skipped",
        "suspended",
        "resumed",
        "escalated",
        "child_started",
        "steps_drifted",
        "waitpoint_opened",
        "waitpoint_closed",
        "waitpoint_token_issued",
        "signal_received",
        "flow_created",
        "flow_grown",
        "flow_sealed",
        "node_sealed",
        "policy_set",
        "flow_cancel_requested",
        "flow_ended",
        "flow_reopened",
        "flow_tagged",
        "flow_removed",
        "lease_acquired",
        "lease_reclaimed",
        "lease_renewed",
        "lease_expired",
        "lease_revoked",
        "lease_released",
        "lease_paused",
        "held",
        "unheld",
        "priority_changed",
        "tagged",
        "key_rotated",
        "token_created",
        "token_revoked",
        "webhook_set",
        "webhook_removed",
        "bulk_started",
        "bulk_stopped",
        "bulk_finished",
        "lane_changed",
        "worker_registered",
        "worker_drained",
        "worker_died",
        "dead_lettered",
        "letter_reposted",
        "letter_dropped",
    ];

    pub fn family(&self) -> Family {
        use Fact::*;
        match self {
            Created { .. }
            | Woken
            | Started { .. }
            | Completed { .. }
            | Retried { .. }
            | Requeued { .. }
            | Delayed { .. }
            | CancelRequested { .. }
            | Failed { .. }
            | Cancelled { .. }
            | Expired { .. }
            | Replayed { .. }
            | Admitted { .. }
            | Blocked { .. }
            | Skipped { .. }
            | Suspended { .. }
            | Resumed { .. }
            | Escalated
            | ChildStarted { .. }
            | StepsDrifted { .. }
            | Removed { .. } => Family::Execution,
            WaitpointOpened { .. }
            | WaitpointClosed { .. }
            | WaitpointTokenIssued { .. }
            | SignalReceived { .. } => Family::Signal,
            FlowCreated { .. }
            | FlowGrown { .. }
            | FlowSealed { .. }
            | NodeSealed { .. }
            | PolicySet { .. }
            | FlowCancelRequested { .. }
            | FlowEnded { .. }
            | FlowReopened
            | FlowTagged { .. }
            | FlowRemoved => Family::Flow,
            LeaseAcquired { .. }
            | LeaseReclaimed { .. }
            | LeaseRenewed { .. }
            | LeaseExpired { .. }
            | LeaseRevoked { .. }
            | LeaseReleased { .. }
            | LeasePaused { .. } => Family::Lease,
            Held { .. }
            | Unheld { .. }
            | PriorityChanged { .. }
            | Tagged { .. }
            | KeyRotated { .. }
            | TokenCreated { .. }
            | TokenRevoked { .. }
            | WebhookSet { .. }
            | WebhookRemoved { .. }
            | BulkStarted { .. }
            | BulkStopped { .. }
            | BulkFinished { .. }
            | LaneChanged { .. }
            | WorkerRegistered { .. }
            | WorkerDrained { .. }
            | WorkerDied { .. }
            | DeadLettered { .. }
            | LetterReposted { .. }
            | LetterDropped { .. } => Family::Operator,
        }
    }

    /// The word of this fact, as it is stored.
    pub fn word(&self) -> &'static str {
        use Fact::*;
        match self {
            Created { .. } => "created",
            Woken => "woken",
            Started { .. } => "started",
            Completed { .. } => "completed",
            Retried { .. } => "retried",
            Requeued { .. } => "requeued",
            Delayed { .. } => "delayed",
            CancelRequested { .. } => "cancel_requested",
            Failed { .. } => "failed",
            Cancelled { .. } => "cancelled",
            Expired { .. } => "expired",
            Replayed { .. } => "replayed",
            Removed { .. } => "removed",
            Admitted { .. } => "admitted",
            Blocked { .. } => "blocked",
            Skipped { .. } => "skipped",
            Suspended { .. } => "suspended",
            Resumed { .. } => "resumed",
            Escalated => "escalated",
            ChildStarted { .. } => "child_started",
            StepsDrifted { .. } => "steps_drifted",
            WaitpointOpened { .. } => "waitpoint_opened",
            WaitpointClosed { .. } => "waitpoint_closed",
            WaitpointTokenIssued { .. } => "waitpoint_token_issued",
            SignalReceived { .. } => "signal_received",
            FlowCreated { .. } => "flow_created",
            FlowGrown { .. } => "flow_grown",
            FlowSealed { .. } => "flow_sealed",
            NodeSealed { .. } => "node_sealed",
            PolicySet { .. } => "policy_set",
            FlowCancelRequested { .. } => "flow_cancel_requested",
            FlowEnded { .. } => "flow_ended",
            FlowReopened => "flow_reopened",
            FlowTagged { .. } => "flow_tagged",
            FlowRemoved => "flow_removed",
            LeaseAcquired { .. } => "lease_acquired",
            LeaseReclaimed { .. } => "lease_reclaimed",
            LeaseRenewed { .. } => "lease_renewed",
            LeaseExpired { .. } => "lease_expired",
            LeaseRevoked { .. } => "lease_revoked",
            LeaseReleased { .. } => "lease_released",
            LeasePaused { .. } => "lease_paused",
            Held { .. } => "held",
            Unheld { .. } => "unheld",
            PriorityChanged { .. } => "priority_changed",
            Tagged { .. } => "tagged",
            KeyRotated { .. } => "key_rotated",
            TokenCreated { .. } => "token_created",
            TokenRevoked { .. } => "token_revoked",
            WebhookSet { .. } => "webhook_set",
            WebhookRemoved { .. } => "webhook_removed",
            BulkStarted { .. } => "bulk_started",
            BulkStopped { .. } => "bulk_stopped",
            BulkFinished { .. } => "bulk_finished",
            LaneChanged { .. } => "lane_changed",
            WorkerRegistered { .. } => "worker_registered",
            WorkerDrained { .. } => "worker_drained",
            WorkerDied { .. } => "worker_died",
            DeadLettered { .. } => "dead_lettered",
            LetterReposted { .. } => "letter_reposted",
            LetterDropped { .. } => "letter_dropped",
        }
    }

    /// Whether this fact is the one that ends an execution.
    pub fn ends(&self) -> bool {
        matches!(
            self,
            Fact::Completed { .. }
                | Fact::Failed { .. }
                | Fact::Cancelled { .. }
                | Fact::Expired { .. }
                | Fact::Skipped { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_facts() {
        // Whoever reads a fact of an unknown word says which there are.
        let error = serde_json::from_str::<Fact>(r#"{"event":"?"}"#).unwrap_err().to_string();
        let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        let mut words = Fact::WORDS.to_vec();
        words.sort_unstable();
        let mut sorted = known.clone();
        sorted.sort_unstable();
        assert_eq!(words, sorted);
    }
}
