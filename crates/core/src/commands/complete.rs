//! Complete: the worker has done the work.

use super::Decision;
use super::lifecycle::{Ending, end_attempt, ended, holder};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How, State};
use crate::limits::Limits;
use crate::payload::{Payload, PayloadKey, Slot};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::state::{AttemptOutcome, PublicState, Reason};
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    pub fence: Fence,
    pub result: Option<Payload>,
}

impl Complete {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        let size = self.result.as_ref().map_or(0, Payload::len);
        if size > limits.result_bytes_max {
            let problem = format!("has {size} bytes; allowed are at most {}", limits.result_bytes_max);
            return Err(Invalid::new("result", problem).into());
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ How::Completed) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        execution.live.series.spent += 1;
        execution.live.series.losses = 0;
        let holder = holder(&execution, &lease);
        let outcome = AttemptOutcome::Completed;
        end_attempt(&mut execution, now, Ending { how: How::Completed, outcome, error: None });
        let mut end = ended(ws, &mut execution, now, PublicState::Completed, Reason::Succeeded);
        end.result_bytes = self.result.as_ref().map(|result| result.len() as u64);
        execution.live.state = State::Ended(end);
        let (attempt, spent) = (execution.attempt_number(), execution.live.series.spent);
        ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
        ws.emit(&execution, now, Fact::Completed { attempt, spent });
        if let Some(result) = &self.result {
            ws.put_payload(PayloadKey { execution: execution.id, slot: Slot::Result }, result.clone());
        }
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(How::Completed))
    }
}
