//! Release: a draining worker gives a lease back; nothing is spent and the work waits for another worker.

use serde::{Deserialize, Serialize};

use super::Decision;
use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder, make_ready};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::AttemptOutcome;
use crate::workspace::Workspace;

/// Gives a lease back unused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    pub fence: Fence,
    /// Only if the lease still ends at this time: a worker that has renewed it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_ends_at: Option<Ms>,
}

impl Release {
    pub fn new(fence: Fence) -> Release {
        Release { fence, if_ends_at: None }
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Released | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        if self.if_ends_at.is_some_and(|at| at != lease.expires_at) {
            let until = lease.expires_at;
            return Err(Rejection::LeaseRenewed { execution: self.fence.execution, until }.into());
        }
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

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_lease_that_was_renewed_is_not_given_back_for_its_worker() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let ends_at = bench.get(fence.execution).lease().map(|lease| lease.expires_at);
        let unused = Release { fence, if_ends_at: ends_at };
        bench.jump(5);
        bench.ok(super::super::Renew { fences: vec![fence] });
        assert_eq!(bench.refused(unused.clone()).code(), "lease_renewed");
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.ok(release(fence));
        bench.ok(unused);
        let fence = bench.claim();
        let ends_at = bench.get(fence.execution).lease().map(|lease| lease.expires_at);
        bench.ok(Release { fence, if_ends_at: ends_at });
        assert_eq!(bench.state(fence.execution).0, "waiting");
    }

    #[test]
    fn a_released_lease_spends_nothing_and_keeps_its_place_in_the_queue() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.jump(5);
        let later = bench.create();
        bench.jump(5);
        bench.ok(release(fence));
        assert_eq!(bench.get(fence.execution).live.series.spent, 0);
        assert_eq!(bench.state(fence.execution), ("waiting", "waiting_for_worker"));
        let claimed = bench.claim_with(bench.poll(), 2);
        assert_eq!(claimed.iter().map(|it| it.execution).collect::<Vec<_>>(), [fence.execution, later]);
        assert_eq!((claimed[0].attempt, claimed[0].epoch), (2, 2));
    }

    #[test]
    fn releasing_again_gives_the_first_reply_and_another_ending_is_refused() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(release(fence));
        bench.claim();
        assert_eq!(bench.ok(release(fence)), Reply::LeaseEnded(How::Released));
        for call in worker_calls(fence) {
            let expected = if matches!(call, Command::Release(_)) { "ok" } else { "already_ended" };
            assert_eq!(code(&bench.run(call)), expected);
        }
    }

    #[test]
    fn releasing_in_the_grace_of_a_cancel_cancels() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        for _ in 0..2 {
            assert_eq!(bench.ok(release(fence)), Reply::LeaseEnded(How::Cancelled));
        }
        assert_eq!(bench.state(fence.execution).0, "cancelled");
    }
}
