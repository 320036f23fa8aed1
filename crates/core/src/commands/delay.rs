//! Delay: the worker gives the lease back until a time; the same attempt goes on later under a new epoch.

use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder};
use super::mail::record;
use super::suspend::check_step;
use super::{Decision, When};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How, State};
use crate::limits::Limits;
use crate::payload::Payload;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::step::{StepKind, StepPlace};
use crate::workspace::Workspace;

/// The worker gives its lease back until a time and spends no attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    pub fence: Fence,
    /// A length counts from when it is decided here, on the store's clock; workers' clocks differ.
    pub until: When,
    /// The step under which the time is recorded at which it goes on, as `{"until": …}`.
    pub step: Option<StepPlace>,
}

impl Delay {
    /// A delay of some length that is not recorded.
    pub fn new(fence: Fence, delay_ms: Ms) -> Delay {
        Delay { fence, until: When::In(delay_ms), step: None }
    }

    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        match self.until {
            When::In(ms) => range("delay_ms", ms, 0, limits.horizon_ms_max)?,
            When::At(at) => range("until", at, 0, Ms::MAX / 4)?,
        }
        check_step(self.step.as_ref(), limits)
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
        let until = self.until.resolve(now);
        if let Some(step) = &self.step {
            let result = serde_json::json!({ "until": until }).to_string();
            record(ws, &mut execution, now, step, StepKind::Sleep, now, Payload::json(result));
        }
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
    fn what_a_sleep_records_is_the_time_of_the_store() {
        use crate::name::StepName;
        use crate::step::StepKey;
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let first = bench.active();
            let until = bench.now + 60_000;
            let name = StepName::parse("sleep").unwrap();
            let place = StepPlace { key: StepKey { name, occurrence: 1 }, number: 1 };
            let sleep = Delay { step: Some(place), ..Delay::new(first, 60_000) };
            for _ in 0..2 {
                assert_eq!(bench.ok(sleep.clone()), Reply::LeaseEnded(How::Delayed { until }));
            }
            let step = bench.store.steps.values().next().unwrap();
            assert_eq!(
                (step.kind, &step.result.bytes[..]),
                (StepKind::Sleep, format!("{{\"until\":{until}}}").as_bytes())
            );
            // Woken before its time, the handler says until when and not how long.
            bench.pass(60_000);
            let second = bench.claim();
            let at = bench.now + 7;
            let again = Delay { fence: second, until: When::At(at), step: None };
            assert_eq!(bench.ok(again), Reply::LeaseEnded(How::Delayed { until: at }));
            let early = Delay { fence: second, until: When::At(-1), step: None };
            let told = early.validate(&Limits::default()).unwrap_err().to_string();
            assert!(told.contains("until is -1; allowed are 0 to"), "{told}");
        }
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
