//! Replay: an ended execution runs again in a new series of attempts. Old attempts and the old result stay
//! until the new ones end.

use super::Decision;
use super::lifecycle::make_ready;
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::Series;
use crate::id::ExecutionId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Replay {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        if current.end().is_none() {
            let state = current.public_state();
            return Err(Rejection::NotTerminal { execution: self.execution, state, verb: "replayed" }.into());
        }
        let max = current.spec.policy.replays_max;
        let series = current.live.series.number + 1;
        if series > max + 1 {
            return Err(Rejection::ReplaysExhausted { execution: self.execution, max }.into());
        }
        let mut execution = (**current).clone();
        execution.live.series = Series { number: series, spent: 0, losses: 0, since: now };
        execution.live.deadline_at = execution.spec.deadline_ms.map(|ms| now + ms);
        let by = By::new(&self.actor, &self.cause);
        let number = ws.emit(&execution, now, Fact::Replayed { by, series });
        make_ready(ws, &mut execution, now, now, number);
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}
