//! Hold: an operator stops one execution until somebody releases it.

use super::Decision;
use super::lifecycle::{finish_cancelled, revoke_lease};
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
            State::Active(lease) => {
                let cancel = lease.cancel.clone();
                revoke_lease(ws, &mut execution, now, Lost::Held, by.clone());
                if let Some(cancel) = cancel {
                    // Whoever asked for the cancel was told that it will happen; a hold does not undo that.
                    finish_cancelled(ws, &mut execution, now, cancel.cancellation);
                    ws.put_execution(execution, now);
                    return Ok(Reply::Changed(ws.require(self.execution)?.clone()));
                }
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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn holding_what_has_been_asked_to_cancel_cancels_it_for_the_first_cause() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(super::super::Cancel { cause: "first".into(), ..cancel(fence.execution, Some(5_000)) });
        bench.ok(hold(fence.execution));
        assert_eq!(bench.state(fence.execution), ("cancelled", "cancelled_by_request"));
        let end = bench.get(fence.execution).end().unwrap();
        assert_eq!(&*end.cancelled.as_ref().unwrap().cause, "first");
        assert_eq!(bench.refused(unhold(fence.execution)).code(), "terminal");
    }
}
