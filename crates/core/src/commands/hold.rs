//! Hold: an operator stops one execution until somebody releases it.

use super::Decision;
use super::lifecycle::revoke_lease;
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::State;
use crate::id::ExecutionId;
use crate::rejection::{Lost, Rejection};
use crate::reply::Reply;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Hold {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        let mut execution = (**current).clone();
        let by = By::new(&self.actor, &self.cause);
        let (until, reason) = match &execution.live.state {
            State::Held { .. } => return Ok(Reply::Changed(current.clone())),
            State::Ended(end) => {
                let (state, reason) = (end.state, end.reason);
                return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
            }
            State::Delayed { until, reason } => (Some(*until), Some(*reason)),
            State::Ready { .. } => (None, None),
            State::Active(_) => {
                revoke_lease(ws, &mut execution, now, Lost::Held, by.clone());
                (None, None)
            }
        };
        let (actor, cause) = (self.actor.clone(), self.cause.clone());
        execution.live.state = State::Held { actor, cause, at: now, until, reason };
        ws.emit(&execution, now, Fact::Held { by });
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}
