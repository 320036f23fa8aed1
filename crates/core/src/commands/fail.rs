//! Fail: the worker could not do the work. What follows is the policy's business.

use super::lifecycle::{Ending, Failure, end_attempt, finish_cancelled, holder, retry_or_fail};
use super::{Decision, check_text};
use crate::Ms;
use crate::attempt::TaskError;
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::AttemptOutcome;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    pub fence: Fence,
    pub error: TaskError,
    /// Wins over the policy's backoff.
    pub retry_after_ms: Option<Ms>,
    /// Decides the jitter of the backoff.
    pub seed: u64,
}

impl Fail {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("error.message", &self.error.message, limits.error_bytes_max)?;
        check_text("error.code", self.error.code.as_deref().unwrap_or_default(), 128)?;
        if let Some(ms) = self.retry_after_ms {
            range("retry_after_ms", ms, 0, limits.horizon_ms_max)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Failed { .. } | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        if let Some(cancel) = lease.cancel {
            let (outcome, error) = (AttemptOutcome::Cancelled, Some(self.error.clone()));
            end_attempt(&mut execution, now, Ending { how: How::Cancelled, outcome, error });
            ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
            finish_cancelled(ws, &mut execution, now, cancel.cancellation);
            ws.put_execution(execution, now);
            return Ok(Reply::LeaseEnded(How::Cancelled));
        }
        execution.live.series.spent += 1;
        execution.live.series.losses = 0;
        let outcome = AttemptOutcome::Failed;
        ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
        let error = Some(self.error.clone());
        // The ending is remembered under the fence that the attempt still has, so it comes before the retry.
        let placeholder = How::Failed { retry_at: None };
        end_attempt(&mut execution, now, Ending { how: placeholder, outcome, error: error.clone() });
        let failure = Failure { outcome, error, retry_after_ms: self.retry_after_ms, seed: self.seed };
        let how = How::Failed { retry_at: retry_or_fail(ws, &mut execution, now, failure) };
        if let Some(ending) = execution.live.endings.last_mut() {
            ending.how = how;
        }
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(how))
    }
}
