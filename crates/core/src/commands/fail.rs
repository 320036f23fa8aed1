//! Fail: the worker could not do the work. What follows is the policy's business.

use serde::{Deserialize, Serialize};

use super::lifecycle::{Ending, Failure, end_attempt, finish_cancelled, holder, retry_or_fail};
use super::{Decision, check_text};
use crate::Ms;
use crate::attempt::TaskError;
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::AttemptOutcome;
use crate::workspace::Workspace;

/// The attempt of a lease has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fail {
    pub fence: Fence,
    pub error: TaskError,
    /// Wins over the policy's backoff.
    pub retry_after_ms: Option<Ms>,
    /// Decides the jitter of the backoff.
    pub seed: u64,
}

impl Fail {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("error.message", &self.error.message, limits.error_bytes_max)?;
        check_text("error.code", self.error.code.as_deref().unwrap_or_default(), 128)?;
        if let Some(ms) = self.retry_after_ms {
            range("retry_after_ms", ms, 0, limits.horizon_ms_max)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Failed { .. } | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        if let Some(cancel) = lease.cancel {
            let (outcome, error) = (AttemptOutcome::Cancelled, Some(self.error.clone()));
            end_attempt(&mut execution, now, Ending { how: How::Cancelled, outcome, error });
            ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
            finish_cancelled(ws, &mut execution, now, cancel.cancellation);
            ws.put_execution(execution, now);
            return Ok(Reply::LeaseEnded(How::Cancelled));
        }
        execution.live.series.spent += 1;
        execution.live.series.losses = 0;
        let outcome = AttemptOutcome::Failed;
        ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
        let error = Some(self.error.clone());
        // The ending is remembered under the fence that the attempt still has, so it comes before the retry.
        let placeholder = How::Failed { retry_at: None };
        end_attempt(&mut execution, now, Ending { how: placeholder, outcome, error: error.clone() });
        let failure = Failure { outcome, error, retry_after_ms: self.retry_after_ms, seed: self.seed };
        let how = How::Failed { retry_at: retry_or_fail(ws, &mut execution, now, failure) };
        if let Some(ending) = execution.live.endings.last_mut() {
            ending.how = how;
        }
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(how))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Create;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_execution_is_tried_again_until_its_attempts_are_spent() {
        let mut bench = Bench::new();
        let id = bench.create();
        for (attempt, backoff_ms) in [(1, 1_000), (2, 2_000)] {
            let fence = bench.claim();
            assert_eq!(fence.attempt, attempt);
            let until = bench.now + backoff_ms;
            assert_eq!(bench.ok(fail(fence)), Reply::LeaseEnded(How::Failed { retry_at: Some(until) }));
            assert_eq!(bench.state(id), ("delayed", "retry_backoff"));
            bench.pass(backoff_ms - 1);
            assert_eq!(bench.state(id).0, "delayed");
            bench.pass(1);
        }
        let fence = bench.claim();
        assert_eq!(bench.ok(fail(fence)), Reply::LeaseEnded(How::Failed { retry_at: None }));
        assert_eq!(bench.state(id), ("failed", "attempts_exhausted"));
        assert_eq!(bench.get(id).end().unwrap().error, Some(fail(fence).error));
        let outcomes: Vec<_> =
            bench.store.attempts.values().map(|it| it.end.clone().unwrap().outcome).collect();
        assert_eq!(outcomes, [AttemptOutcome::Failed; 2]);
    }

    #[test]
    fn what_the_policy_calls_final_is_not_tried_again() {
        type Case = (&'static str, fn(&mut Create), fn(Fence) -> Fail);
        let cases: [Case; 4] = [
            ("fatal_error", |_| {}, fail_fatally),
            ("fatal_error", |it| it.policy.non_retryable = vec!["broken".into()], fail),
            ("attempts_exhausted", |it| it.policy.max_attempts = 1, fail),
            ("retry_time_exhausted", |it| it.policy.max_elapsed_ms = Some(999), fail),
        ];
        for (reason, edit, failure) in cases {
            let mut bench = Bench::new();
            let fence = bench.active_with(edit);
            bench.ok(failure(fence));
            assert_eq!(bench.state(fence.execution), ("failed", reason));
        }
    }

    #[test]
    fn a_retry_that_still_starts_within_the_elapsed_time_is_made() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.max_elapsed_ms = Some(1_000));
        bench.ok(fail(fence));
        assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
    }

    #[test]
    fn the_workers_retry_after_wins_over_backoff_but_not_over_the_elapsed_time() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.max_elapsed_ms = Some(60_000));
        let until = bench.now + 30_000;
        let reply = bench.ok(Fail { retry_after_ms: Some(30_000), ..fail(fence) });
        assert_eq!(reply, Reply::LeaseEnded(How::Failed { retry_at: Some(until) }));
        bench.pass(30_000);
        let fence = bench.claim();
        bench.ok(Fail { retry_after_ms: Some(30_001), ..fail(fence) });
        assert_eq!(bench.state(fence.execution), ("failed", "retry_time_exhausted"));
    }

    #[test]
    fn a_retry_at_once_is_ready_as_soon_as_the_agenda_is_looked_at() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(Fail { retry_after_ms: Some(0), ..fail(fence) });
        bench.pass(0);
        assert_eq!(bench.state(fence.execution).0, "waiting");
    }

    #[test]
    fn failing_again_gives_the_first_reply_and_another_ending_is_refused() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let first = bench.ok(fail(fence));
        bench.pass(5_000);
        bench.claim();
        assert_eq!(bench.ok(fail(fence)), first);
        assert_eq!(bench.refused(complete(fence)).code(), "already_ended");
        assert_eq!(bench.state(fence.execution).0, "active");
    }

    #[test]
    fn failing_in_the_grace_of_a_cancel_cancels_without_a_retry_and_keeps_the_error_in_the_attempt() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        for _ in 0..2 {
            assert_eq!(bench.ok(fail(fence)), Reply::LeaseEnded(How::Cancelled));
        }
        assert_eq!(bench.state(fence.execution), ("cancelled", "cancelled_by_request"));
        let end = bench.get(fence.execution).live.attempt.clone().unwrap().end.unwrap();
        assert_eq!((end.outcome, end.error), (AttemptOutcome::Cancelled, Some(fail(fence).error)));
        assert_eq!(bench.get(fence.execution).live.series.spent, 0);
    }
}
