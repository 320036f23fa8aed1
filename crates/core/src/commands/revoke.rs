//! Revoke: an operator takes a lease away; the work waits for another worker and nothing is spent.

use super::Decision;
use super::lifecycle::{finish_cancelled, make_ready, revoke_lease};
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::ExecutionId;
use crate::rejection::{Lost, Rejection};
use crate::reply::Reply;
use crate::state::AttemptOutcome;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Revoke {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Revoke {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        let Some(lease) = current.lease().cloned() else {
            let state = current.public_state();
            return Err(Rejection::NotActive { execution: self.execution, state }.into());
        };
        let mut execution = (**current).clone();
        revoke_lease(ws, &mut execution, now, Lost::Revoked, By::new(&self.actor, &self.cause));
        match lease.cancel {
            Some(cancel) => finish_cancelled(ws, &mut execution, now, cancel.cancellation),
            None => {
                let (attempt, outcome) = (execution.attempt_number(), AttemptOutcome::Revoked);
                let number = ws.emit(&execution, now, Fact::Requeued { attempt, outcome });
                make_ready(ws, &mut execution, now, lease.acquired_at, number);
            }
        }
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}
