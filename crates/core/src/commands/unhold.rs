//! Unhold: a held execution goes on; what moves it next is worked out anew.

use super::Decision;
use super::flows::admit;
use super::lifecycle::make_ready;
use super::mail::park;
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::State;
use crate::flow::GroupState;
use crate::id::ExecutionId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::Reason;
use crate::workspace::Workspace;

/// Lets a held execution go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Unhold {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Unhold {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        let mut execution = (**current).clone();
        let (until, reason) = match &execution.live.state {
            State::Held { until, reason, .. } => (until.filter(|at| *at > now), *reason),
            State::Ended(end) => {
                let (state, reason) = (end.state, end.reason);
                return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
            }
            _ => return Ok(Reply::Changed(current.clone())),
        };
        let by = By::new(&self.actor, &self.cause);
        let suspension = match &execution.live.state {
            State::Held { suspension, .. } => suspension.clone(),
            _ => None,
        };
        let reason = reason.filter(|_| until.is_some());
        let number = ws.emit(&execution, now, Fact::Unheld { by, until, reason });
        // What it waited for outside may have come while it was held.
        if let Some(suspension) = suspension {
            park(ws, &mut execution, now, suspension);
            ws.put_execution(execution, now);
            return Ok(Reply::Changed(ws.require(self.execution)?.clone()));
        }
        // What it waited for in its flow may have come while it was held.
        if let Some(node) = execution.node() {
            let satisfied = node.group.state == GroupState::Satisfied;
            let started = execution.live.attempt.is_some();
            if !satisfied {
                let reason = Reason::WaitingForDependencies;
                execution.live.state = State::Blocked { reason };
                ws.emit(&execution, now, Fact::Blocked { reason });
            } else if !started {
                admit(ws, &mut execution, now);
            }
            if !satisfied || !started {
                ws.put_execution(execution, now);
                return Ok(Reply::Changed(ws.require(self.execution)?.clone()));
            }
        }
        match until {
            Some(until) => {
                let reason = reason.unwrap_or(Reason::WaitingForDelay);
                execution.live.state = State::Delayed { until, reason };
            }
            None => make_ready(ws, &mut execution, now, now, number),
        }
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}
