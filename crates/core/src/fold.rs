//! Reads events back into states: what a subscriber knows of an execution from its events alone.
//!
//! Folding all events of an execution gives the state that is stored for it; lease end times and progress
//! are not events and are left out.

mod flow;

pub use flow::FoldedFlow;

use crate::Ms;
use crate::event::{Event, Fact};
use crate::execution::{Execution, State};
use crate::state::{PublicState, Reason};
use crate::tags::Tags;

#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    pub state: PublicState,
    pub reason: Reason,
    pub until: Option<Ms>,
    pub attempt: u32,
    pub epoch: u64,
    pub series: u32,
    pub spent: u32,
    pub losses: u32,
    pub priority: i8,
    pub tags: Tags,
}

impl Folded {
    /// What the stored record says, in the same form.
    pub fn of(execution: &Execution) -> Folded {
        let live = &execution.live;
        Folded {
            state: execution.public_state(),
            reason: execution.reason(),
            until: match live.state {
                State::Delayed { until, .. } => Some(until),
                _ => None,
            },
            attempt: execution.attempt_number(),
            epoch: live.epoch,
            series: live.series.number,
            spent: live.series.spent,
            losses: live.series.losses,
            priority: live.priority,
            tags: live.tags.clone(),
        }
    }

    /// Applies one event of an execution; `None` before it is created and after it is removed.
    pub fn apply(folded: Option<Folded>, event: &Event) -> Option<Folded> {
        if let Fact::Created { priority, until, blocked, .. } = &event.fact {
            let (state, reason) =
                blocked.map_or_else(|| waiting_or_delayed(*until, Reason::WaitingForDelay), blocked_by);
            return Some(Folded {
                state,
                reason,
                until: *until,
                attempt: 0,
                epoch: 0,
                series: 1,
                spent: 0,
                losses: 0,
                priority: *priority,
                tags: event.tags.clone(),
            });
        }
        let mut it = folded?;
        let mut set = |state, reason, until| {
            it.state = state;
            it.reason = reason;
            it.until = until;
        };
        match &event.fact {
            Fact::Created { .. } => {}
            Fact::Removed { .. } => return None,
            Fact::Woken | Fact::Requeued { .. } => set(PublicState::Waiting, Reason::WaitingForWorker, None),
            Fact::Started { attempt, epoch, .. } => {
                set(PublicState::Active, Reason::Running, None);
                it.attempt = *attempt;
                it.epoch = *epoch;
            }
            Fact::Completed { spent, .. } => {
                set(PublicState::Completed, Reason::Succeeded, None);
                it.spent = *spent;
                it.losses = 0;
            }
            Fact::Retried { until, spent, losses, .. } => {
                set(PublicState::Delayed, Reason::RetryBackoff, Some(*until));
                it.spent = *spent;
                it.losses = *losses;
            }
            Fact::Delayed { until } => {
                set(PublicState::Delayed, Reason::ResumeDelay, Some(*until));
                it.losses = 0;
            }
            Fact::CancelRequested { .. } => set(PublicState::Active, Reason::CancelRequested, None),
            Fact::Failed { reason, spent, losses, .. } => {
                set(PublicState::Failed, *reason, None);
                it.spent = *spent;
                it.losses = *losses;
            }
            Fact::Cancelled { reason, .. } => {
                set(PublicState::Cancelled, reason.unwrap_or(Reason::CancelledByRequest), None);
            }
            Fact::Skipped { reason, .. } => set(PublicState::Skipped, *reason, None),
            Fact::Blocked { reason } => {
                let (state, reason) = blocked_by(*reason);
                set(state, reason, None);
            }
            Fact::Expired { reason, spent, losses } => {
                set(PublicState::Expired, *reason, None);
                it.spent = *spent;
                it.losses = *losses;
            }
            Fact::Replayed { series, blocked, .. } => {
                let ready = (PublicState::Waiting, Reason::WaitingForWorker);
                let (state, reason) = blocked.map_or(ready, blocked_by);
                set(state, reason, None);
                it.series = *series;
                it.spent = 0;
                it.losses = 0;
            }
            Fact::Suspended { reason, .. } => {
                set(PublicState::Suspended, *reason, None);
                it.losses = 0;
            }
            Fact::Resumed { .. } => set(PublicState::Waiting, Reason::WaitingForWorker, None),
            Fact::Escalated => set(PublicState::Suspended, Reason::OperatorReview, None),
            Fact::Held { .. } => set(PublicState::Waiting, Reason::PausedByOperator, None),
            Fact::Admitted { until, reason } | Fact::Unheld { until, reason, .. } => {
                let (state, reason) = waiting_or_delayed(*until, reason.unwrap_or(Reason::WaitingForDelay));
                set(state, reason, *until);
            }
            Fact::PriorityChanged { priority, .. } => it.priority = *priority,
            Fact::Tagged { tags, .. } => it.tags = tags.clone(),
            Fact::LeaseAcquired { .. }
            | Fact::LeaseReclaimed { .. }
            | Fact::LeaseRenewed { .. }
            | Fact::LeaseExpired { .. }
            | Fact::LeaseRevoked { .. }
            | Fact::LeaseReleased { .. }
            | Fact::LeasePaused { .. }
            | Fact::ChildStarted { .. }
            | Fact::StepsDrifted { .. }
            | Fact::WaitpointOpened { .. }
            | Fact::WaitpointClosed { .. }
            | Fact::WaitpointTokenIssued { .. }
            | Fact::SignalReceived { .. }
            | Fact::FlowCreated { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowSealed { .. }
            | Fact::NodeSealed { .. }
            | Fact::PolicySet { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened
            | Fact::FlowTagged { .. }
            | Fact::FlowRemoved
            | Fact::KeyRotated { .. }
            | Fact::TokenCreated { .. }
            | Fact::TokenRevoked { .. }
            | Fact::WebhookSet { .. }
            | Fact::WebhookRemoved { .. }
            | Fact::BulkStarted { .. }
            | Fact::BulkStopped { .. }
            | Fact::BulkFinished { .. }
            | Fact::LaneChanged { .. }
            | Fact::WorkerRegistered { .. }
            | Fact::WorkerDrained { .. }
            | Fact::WorkerDied { .. }
            | Fact::DeadLettered { .. }
            | Fact::LetterReposted { .. }
            | Fact::LetterDropped { .. } => {}
        }
        Some(it)
    }
}

fn blocked_by(reason: Reason) -> (PublicState, Reason) {
    match reason {
        Reason::Hedge => (PublicState::Delayed, reason),
        _ => (PublicState::WaitingChildren, reason),
    }
}

fn waiting_or_delayed(until: Option<Ms>, reason: Reason) -> (PublicState, Reason) {
    match until {
        Some(_) => (PublicState::Delayed, reason),
        None => (PublicState::Waiting, Reason::WaitingForWorker),
    }
}
