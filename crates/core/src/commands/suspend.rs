//! Suspend: the worker gives its lease back until something happens outside; the same attempt goes on then, under a
//! new epoch.

use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder};
use super::mail::{open, park};
use super::open_waitpoint::NewWaitpoint;
use super::{Decision, When};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::step::StepPlace;
use crate::suspension::{Condition, Mailbox, OnTimeout, Suspension};
use crate::workspace::Workspace;

/// The worker parks its execution and spends no attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    pub fence: Fence,
    pub condition: Condition,
    /// What people see while it waits.
    pub reason: Reason,
    pub timeout: Option<When>,
    pub on_timeout: OnTimeout,
    /// Opened in the same commit; conditions refer to them by name.
    pub waitpoints: Vec<NewWaitpoint>,
    /// The step under which the end of the suspension is recorded.
    pub step: Option<StepPlace>,
}

impl Suspend {
    pub fn new(fence: Fence, condition: Condition) -> Suspend {
        Suspend {
            fence,
            condition,
            reason: Reason::WaitingForSignal,
            timeout: None,
            on_timeout: OnTimeout::Fail,
            waitpoints: Vec::new(),
            step: None,
        }
    }

    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        self.condition.validate()?;
        let reasons = [
            Reason::WaitingForSignal,
            Reason::WaitingForApproval,
            Reason::WaitingForCallback,
            Reason::WaitingForToolResult,
            Reason::WaitingForChild,
            Reason::OperatorReview,
        ];
        if !reasons.contains(&self.reason) {
            let words: Vec<_> = reasons.iter().map(|it| it.word()).collect();
            let problem = format!("is {}; allowed are {}", self.reason, words.join(", "));
            return Err(Invalid::new("reason", problem).into());
        }
        match self.timeout {
            Some(When::In(ms)) => range("timeout", ms, 0, limits.horizon_ms_max)?,
            Some(When::At(at)) => range("timeout", at, 0, Ms::MAX / 4)?,
            None if self.condition == Condition::Time => {
                let problem = "is missing; a suspension that waits for time alone needs one";
                return Err(Invalid::new("timeout", problem).into());
            }
            None => {}
        }
        if self.waitpoints.len() > limits.waitpoints_max {
            let (all, max) = (self.waitpoints.len(), limits.waitpoints_max);
            let problem = format!("are {all} in number; allowed are at most {max}");
            return Err(Invalid::new("waitpoints", problem).into());
        }
        self.waitpoints.iter().try_for_each(|it| it.validate(limits))?;
        check_step(self.step.as_ref(), limits)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Suspended | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        if let Some(cancel) = lease.cancel {
            let outcome = AttemptOutcome::Cancelled;
            end_attempt(&mut execution, now, Ending { how: How::Cancelled, outcome, error: None });
            ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
            finish_cancelled(ws, &mut execution, now, cancel.cancellation);
            ws.put_execution(execution, now);
            return Ok(Reply::LeaseEnded(How::Cancelled));
        }
        let timeout_at = self.timeout.map(|when| when.resolve(now));
        for new in &self.waitpoints {
            open(ws, &mut execution, now, new, None)?;
        }
        self.check_waitpoints(execution.mailbox_mut())?;
        execution.remember_ending(How::Suspended);
        if let Some(attempt) = &mut execution.live.attempt {
            attempt.leased_ms += now - lease.acquired_at;
        }
        execution.live.series.losses = 0;
        execution.mailbox_mut().resumption = None;
        ws.emit(&execution, now, Fact::LeasePaused { holder });
        let suspension = Suspension {
            condition: self.condition.clone(),
            reason: self.reason,
            since: now,
            timeout_at,
            on_timeout: self.on_timeout,
            step: self.step.clone(),
        };
        park(ws, &mut execution, now, Box::new(suspension));
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(How::Suspended))
    }

    /// A suspension that nothing can ever end is a mistake of whoever asks for it.
    fn check_waitpoints(&self, mailbox: &Mailbox) -> Result<(), Invalid> {
        if self.condition.can_be_met(mailbox) {
            return Ok(());
        }
        let problem = "can never be met: it asks for a waitpoint that is closed or was never opened, for a child \
                       that was never started, or for more approvals than there are approvers";
        Err(Invalid::new("condition", problem))
    }
}

pub(super) fn check_step(step: Option<&StepPlace>, limits: &Limits) -> Result<(), Rejection> {
    match step {
        Some(step) => Ok(range("step number", step.number.into(), 0, limits.steps_max as i64)?),
        None => Ok(()),
    }
}
