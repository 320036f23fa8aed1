//! Cancel: work that has not started ends at once; running work is cut off, at once or after a grace.

use super::lifecycle::{finish_cancelled, revoke_lease};
use super::{Decision, check_by};
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::{CancelRequest, Cancellation, State};
use crate::id::ExecutionId;
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::{Lost, Rejection};
use crate::reply::Reply;
use crate::state::PublicState;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Cancel {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
    /// How long a running worker may take to end by itself.
    pub grace_ms: Option<Ms>,
}

impl Cancel {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        if let Some(ms) = self.grace_ms {
            range("grace", ms, 0, limits.horizon_ms_max)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        let mut execution = (**current).clone();
        let wish = Cancellation { actor: self.actor.clone(), cause: self.cause.clone(), at: now };
        let grace = self.grace_ms.filter(|ms| *ms > 0);
        match &mut execution.live.state {
            State::Ended(end) if end.state == PublicState::Cancelled => {
                return Ok(Reply::Cancelled { state: end.state, cut_at: None });
            }
            State::Ended(end) => {
                let (state, reason) = (end.state, end.reason);
                return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
            }
            State::Active(lease) => {
                let first = lease.cancel.clone();
                if let Some(grace) = grace {
                    if let Some(first) = first {
                        return Ok(Reply::Cancelled {
                            state: PublicState::Active,
                            cut_at: Some(first.cut_at),
                        });
                    }
                    let cut_at = now.saturating_add(grace);
                    lease.cancel = Some(CancelRequest { cancellation: wish, cut_at });
                    let by = By::new(&self.actor, &self.cause);
                    ws.emit(&execution, now, Fact::CancelRequested { by, cut_at });
                    ws.put_execution(execution, now);
                    return Ok(Reply::Cancelled { state: PublicState::Active, cut_at: Some(cut_at) });
                }
                // A grace that runs is cut short; the first cause stands.
                let wish = first.map_or(wish, |first| first.cancellation);
                let by = By::new(&self.actor, &self.cause);
                revoke_lease(ws, &mut execution, now, Lost::Cancelled, by);
                finish_cancelled(ws, &mut execution, now, wish);
            }
            State::Ready { .. } | State::Delayed { .. } | State::Held { .. } => {
                finish_cancelled(ws, &mut execution, now, wish);
            }
        }
        ws.put_execution(execution, now);
        Ok(Reply::Cancelled { state: PublicState::Cancelled, cut_at: None })
    }
}
