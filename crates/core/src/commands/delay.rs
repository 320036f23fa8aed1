//! Delay: the worker gives the lease back until a time; the same attempt goes on later under a new epoch.

use super::Decision;
use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How, State};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    pub fence: Fence,
    pub delay_ms: Ms,
}

impl Delay {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        Ok(range("delay_ms", self.delay_ms, 0, limits.horizon_ms_max)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Delayed { .. } | How::Cancelled)) = current.ending_of(self.fence) {
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
        let until = now.saturating_add(self.delay_ms);
        let how = How::Delayed { until };
        execution.remember_ending(how);
        if let Some(attempt) = &mut execution.live.attempt {
            attempt.leased_ms += now - lease.acquired_at;
        }
        execution.live.series.losses = 0;
        execution.live.state = State::Delayed { until, reason: Reason::ResumeDelay };
        ws.emit(&execution, now, Fact::LeasePaused { holder });
        ws.emit(&execution, now, Fact::Delayed { until });
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(how))
    }
}
