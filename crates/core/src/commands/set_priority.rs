//! Change the priority of an execution that has not ended.

use super::{Decision, check_by};
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::State;
use crate::id::ExecutionId;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct SetPriority {
    pub execution: ExecutionId,
    pub priority: i8,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl SetPriority {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        Ok(range("priority", self.priority.into(), -100, 100)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        if let Some(end) = current.end() {
            let (state, reason) = (end.state, end.reason);
            return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
        }
        let mut execution = (**current).clone();
        if execution.live.priority == self.priority {
            return Ok(Reply::Changed(current.clone()));
        }
        let lane = ws.lane(&execution.spec.lane);
        let before = execution.live.priority;
        execution.live.priority = self.priority;
        if let State::Ready { rank, .. } = &mut execution.live.state {
            // The eligible time stays; only the head start changes.
            let eligible_at = rank.saturating_add(i64::from(before).saturating_mul(lane.step_ms));
            *rank = lane.rank(eligible_at, self.priority);
        }
        let by = By::new(&self.actor, &self.cause);
        ws.emit(&execution, now, Fact::PriorityChanged { by, priority: self.priority });
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}
