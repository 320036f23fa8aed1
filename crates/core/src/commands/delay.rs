//! Delay: the worker gives the lease back until a time; the same attempt goes on later under a new epoch.

use super::Decision;
use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How, State};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::workspace::Workspace;

/// The worker gives its lease back for a while and spends no attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    pub fence: Fence,
    pub delay_ms: Ms,
}

impl Delay {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        Ok(range("delay_ms", self.delay_ms, 0, limits.horizon_ms_max)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Delayed { .. } | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        if let Some(cancel) = lease.cancel {
            let outcome = AttemptOutcome::Cancelled;
            end_attempt(&mut execution, now, Ending { how: How::Cancelled, outcome, error: None });
            ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
            finish_cancelled(ws, &mut execution, now, cancel.cancellation);
            ws.put_execution(execution, now);
            return Ok(Reply::LeaseEnded(How::Cancelled));
        }
        let until = now.saturating_add(self.delay_ms);
        let how = How::Delayed { until };
        execution.remember_ending(how);
        if let Some(attempt) = &mut execution.live.attempt {
            attempt.leased_ms += now - lease.acquired_at;
        }
        execution.live.series.losses = 0;
        execution.live.state = State::Delayed { until, reason: Reason::ResumeDelay };
        ws.emit(&execution, now, Fact::LeasePaused { holder });
        ws.emit(&execution, now, Fact::Delayed { until });
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(how))
    }
}

#[cfg(test)]
mod tests {
    use super::super::When;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_same_attempt_goes_on_after_a_delay_under_a_new_epoch() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(report(first, 40));
        let until = bench.now + 60_000;
        for _ in 0..2 {
            assert_eq!(bench.ok(delay(first, 60_000)), Reply::LeaseEnded(How::Delayed { until }));
        }
        assert_eq!(bench.state(first.execution), ("delayed", "resume_delay"));
        bench.pass(60_000);
        let second = bench.claim();
        assert_eq!((second.attempt, second.epoch), (1, 2));
        let live = &bench.get(first.execution).live;
        assert_eq!(live.series.spent, 0);
        assert_eq!(live.attempt.as_ref().unwrap().progress.as_ref().unwrap().percent, Some(40));
        assert_eq!(bench.refused(complete(first)).code(), "already_ended");
        bench.ok(complete(second));
    }

    #[test]
    fn a_delay_does_not_move_the_deadline() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.deadline = Some(When::In(10_000)));
        bench.ok(delay(fence, 60_000));
        bench.pass(9_999);
        assert_eq!(bench.state(fence.execution).0, "delayed");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution), ("expired", "deadline_passed"));
    }

    #[test]
    fn the_attempt_timeout_counts_leased_time_only() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.attempt_timeout_ms = Some(10_000));
        bench.pass(6_000);
        bench.ok(delay(fence, 2 * 24 * 3_600_000));
        bench.pass(2 * 24 * 3_600_000);
        let fence = bench.claim();
        bench.pass(3_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
        assert_eq!(bench.get(fence.execution).live.series.spent, 1);
    }

    #[test]
    fn leased_time_adds_up_over_several_delays() {
        let mut bench = Bench::new();
        bench.create_with(|it| it.policy.attempt_timeout_ms = Some(10_000));
        for _ in 0..2 {
            let fence = bench.claim();
            bench.pass(4_000);
            bench.ok(delay(fence, 1_000));
            bench.pass(1_000);
        }
        let fence = bench.claim();
        bench.pass(1_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution).0, "delayed");
    }

    #[test]
    fn an_attempt_that_went_on_and_lost_its_lease_is_over() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(delay(fence, 1_000));
        bench.pass(1_000);
        let second = bench.claim();
        bench.pass(31_000);
        let third = bench.claim();
        assert_eq!((second.attempt, third.attempt, third.epoch), (1, 2, 3));
        assert_eq!(bench.refused(complete(second)).code(), "lease_lost");
    }

    #[test]
    fn delaying_in_the_grace_of_a_cancel_cancels() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        for _ in 0..2 {
            assert_eq!(bench.ok(delay(fence, 60_000)), Reply::LeaseEnded(How::Cancelled));
        }
        assert_eq!(bench.state(fence.execution).0, "cancelled");
    }

    #[test]
    fn the_newest_endings_are_remembered_and_older_ones_are_still_refused() {
        let mut bench = Bench::new();
        bench.create();
        let mut fences = Vec::new();
        for _ in 0..40 {
            let fence = bench.claim();
            bench.ok(delay(fence, 1));
            bench.pass(1);
            fences.push(fence);
        }
        assert_eq!(code(&bench.run(delay(fences[39], 1))), "ok");
        assert_eq!(code(&bench.run(delay(fences[8], 1))), "ok");
        assert_eq!(code(&bench.run(delay(fences[7], 1))), "lease_lost");
    }
}
