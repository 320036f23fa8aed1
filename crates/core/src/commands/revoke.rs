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

/// Takes the lease of an execution away.
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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_revoked_lease_spends_nothing_does_not_back_off_and_its_holder_is_named() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(revoke(fence.execution));
        assert_eq!(bench.state(fence.execution), ("waiting", "waiting_for_worker"));
        let series = &bench.get(fence.execution).live.series;
        assert_eq!((series.spent, series.losses), (0, 0));
        let revoked = bench.store.events.iter().rev().nth(1).unwrap();
        let Fact::LeaseRevoked { holder, by } = &revoked.fact else { panic!("{revoked:?}") };
        assert_eq!((holder.instance, holder.epoch, &*by.actor), (bench.worker, 1, "op"));
        for call in worker_calls(fence) {
            assert_eq!(code(&bench.run(call.clone())), "lease_lost", "{call:?}");
        }
        let next = bench.claim();
        assert_eq!((next.attempt, next.epoch), (2, 2));
    }

    #[test]
    fn there_is_nothing_to_revoke_without_a_lease() {
        let mut bench = Bench::new();
        let id = bench.create();
        assert_eq!(bench.refused(revoke(id)).code(), "not_active");
        let unknown = bench.next_id();
        assert_eq!(bench.refused(revoke(unknown)).code(), "not_found");
    }
}
