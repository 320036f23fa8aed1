//! Release: a draining worker gives a lease back; nothing is spent and the work waits for another worker.

use super::Decision;
use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder, make_ready};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::reply::Reply;
use crate::state::AttemptOutcome;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    pub fence: Fence,
}

impl Release {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Released | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        let (how, outcome) = match lease.cancel {
            Some(_) => (How::Cancelled, AttemptOutcome::Cancelled),
            None => (How::Released, AttemptOutcome::Released),
        };
        end_attempt(&mut execution, now, Ending { how, outcome, error: None });
        ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
        match lease.cancel {
            Some(cancel) => finish_cancelled(ws, &mut execution, now, cancel.cancellation),
            None => {
                let attempt = execution.attempt_number();
                let number = ws.emit(&execution, now, Fact::Requeued { attempt, outcome });
                make_ready(ws, &mut execution, now, lease.acquired_at, number);
            }
        }
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(how))
    }
}
