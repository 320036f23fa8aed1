//! The moves that several commands share: becoming ready, losing a lease, trying again, ending.

use super::mail::close_all;
use crate::Ms;
use crate::attempt::{AttemptEnd, ErrorClass, TaskError};
use crate::event::{By, Fact, Holder};
use crate::execution::{Cancellation, End, Execution, How, Lease, State};
use crate::policy::LeaseLoss;
use crate::rejection::Lost;
use crate::state::{AttemptOutcome, PublicState, Reason};
use crate::workspace::Workspace;

pub(super) fn holder(execution: &Execution, lease: &Lease) -> Holder {
    Holder {
        worker: lease.worker.clone(),
        instance: lease.instance,
        attempt: execution.attempt_number(),
        epoch: execution.live.epoch,
    }
}

/// Puts an execution into the ready queue, behind what became eligible before it. `number` is that of the
/// event that says so, which makes its place unique.
pub(super) fn make_ready(ws: &Workspace, execution: &mut Execution, now: Ms, eligible_at: Ms, number: u64) {
    let lane = ws.lane(&execution.spec.lane);
    let rank = lane.rank(eligible_at, execution.live.priority);
    execution.live.state = State::Ready { rank, number, since: now };
}

/// How a lease ends: what the worker hears if it calls again, and what becomes of the attempt.
pub(super) struct Ending {
    pub how: How,
    pub outcome: AttemptOutcome,
    pub error: Option<TaskError>,
}

/// Ends the lease and the attempt of an active execution. The caller sets the next state.
pub(super) fn end_attempt(execution: &mut Execution, now: Ms, ending: Ending) {
    execution.remember_ending(ending.how);
    if let Some(attempt) = &mut execution.live.attempt {
        attempt.end = Some(AttemptEnd { at: now, outcome: ending.outcome, error: ending.error });
    }
}

/// The state of an execution that has just ended. An attempt that was put off ends with it, so that a replay
/// starts a new one; its waitpoints close.
pub(super) fn ended(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    state: PublicState,
    reason: Reason,
) -> End {
    if let Some(attempt) = execution.live.attempt.as_mut().filter(|attempt| attempt.end.is_none()) {
        attempt.end = Some(AttemptEnd { at: now, outcome: AttemptOutcome::Cancelled, error: None });
    }
    close_all(ws, execution, now);
    let lane = ws.lane(&execution.spec.lane);
    let keep_ms = lane.retention_ms.unwrap_or(ws.limits.retention_ms);
    let remove_at = now.saturating_add(keep_ms).max(execution.spec.idempotency_until.unwrap_or(0));
    let (error, result_bytes, cancelled, upstream) = (None, None, None, None);
    End { state, reason, at: now, error, result_bytes, cancelled, upstream, remove_at }
}

/// Ends an execution as cancelled, with the cause that was given first.
pub(super) fn finish_cancelled(ws: &mut Workspace, execution: &mut Execution, now: Ms, by: Cancellation) {
    finish_cancelled_as(ws, execution, now, by, Reason::CancelledByRequest);
}

/// Ends an execution as cancelled for a reason of its own.
pub(super) fn finish_cancelled_as(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    by: Cancellation,
    reason: Reason,
) {
    let mut end = ended(ws, execution, now, PublicState::Cancelled, reason);
    let told = Some(reason).filter(|it| *it != Reason::CancelledByRequest);
    let fact = Fact::Cancelled { by: By::new(&by.actor, &by.cause), reason: told };
    end.cancelled = Some(by);
    execution.live.state = State::Ended(end);
    ws.emit(execution, now, fact);
}

pub(super) fn finish_failed(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    reason: Reason,
    error: Option<TaskError>,
) {
    let mut end = ended(ws, execution, now, PublicState::Failed, reason);
    end.error = error.clone();
    execution.live.state = State::Ended(end);
    let (spent, losses) = (execution.live.series.spent, execution.live.series.losses);
    ws.emit(execution, now, Fact::Failed { reason, spent, losses, error });
}

pub(super) fn finish_expired(ws: &mut Workspace, execution: &mut Execution, now: Ms, reason: Reason) {
    let end = ended(ws, execution, now, PublicState::Expired, reason);
    execution.live.state = State::Ended(end);
    let (spent, losses) = (execution.live.series.spent, execution.live.series.losses);
    ws.emit(execution, now, Fact::Expired { reason, spent, losses });
}

/// What follows a failed attempt, whose cost is already booked: another try after a pause, or the end.
/// Returns when the next try may start.
pub(super) fn retry_or_fail(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    failure: Failure,
) -> Option<Ms> {
    let policy = &execution.spec.policy;
    let series = &execution.live.series;
    let error = failure.error;
    let is_final = |error: &TaskError| {
        error.class == ErrorClass::Fatal
            || error.code.as_ref().is_some_and(|code| policy.non_retryable.contains(code))
    };
    // A loss that counts is among the spent attempts already.
    let failures = match policy.lease_loss {
        LeaseLoss::Uncounted => series.spent + series.losses,
        LeaseLoss::Counts => series.spent,
    };
    let pause = failure.retry_after_ms.unwrap_or_else(|| policy.backoff.delay_ms(failures, failure.seed));
    let until = now.saturating_add(pause);
    let too_late = policy.max_elapsed_ms.is_some_and(|max| until > series.since.saturating_add(max));
    let reason = if error.as_ref().is_some_and(is_final) {
        Reason::FatalError
    } else if series.spent >= policy.max_attempts {
        Reason::AttemptsExhausted
    } else if too_late {
        Reason::RetryTimeExhausted
    } else {
        let (spent, losses) = (series.spent, series.losses);
        let attempt = execution.attempt_number();
        execution.live.state = State::Delayed { until, reason: Reason::RetryBackoff };
        ws.emit(
            execution,
            now,
            Fact::Retried { attempt, outcome: failure.outcome, until, spent, losses, error },
        );
        return Some(until);
    };
    finish_failed(ws, execution, now, reason, error);
    None
}

pub(super) struct Failure {
    pub outcome: AttemptOutcome,
    pub error: Option<TaskError>,
    pub retry_after_ms: Option<Ms>,
    pub seed: u64,
}

/// The holder of a lease is gone: the work runs again without spending an attempt, up to a number of losses
/// in a row, unless the policy says that losses count.
pub(super) fn lose_lease(ws: &mut Workspace, execution: &mut Execution, now: Ms, lost: Lost, seed: u64) {
    let Some(lease) = execution.lease().cloned() else { return };
    let outcome = AttemptOutcome::LeaseLost;
    end_attempt(execution, now, Ending { how: How::Lost(lost), outcome, error: None });
    ws.emit(execution, now, Fact::LeaseExpired { holder: holder(execution, &lease) });
    if let Some(cancel) = lease.cancel {
        return finish_cancelled(ws, execution, now, cancel.cancellation);
    }
    let policy = &execution.spec.policy;
    let series = &mut execution.live.series;
    series.losses += 1;
    if policy.lease_loss == LeaseLoss::Counts {
        series.spent += 1;
        if series.spent >= policy.max_attempts {
            return finish_expired(ws, execution, now, Reason::LeaseLost);
        }
    } else if series.losses >= policy.losses_max {
        let message = format!("{} leases in a row were lost; does this work kill its worker?", series.losses);
        let error = TaskError::new("crash_loop", message);
        return finish_failed(ws, execution, now, Reason::CrashLoop, Some(error));
    }
    retry_or_fail(ws, execution, now, Failure { outcome, error: None, retry_after_ms: None, seed });
}

/// Takes a lease away without cost; the caller decides what comes next.
pub(super) fn revoke_lease(ws: &mut Workspace, execution: &mut Execution, now: Ms, lost: Lost, by: By) {
    let Some(lease) = execution.lease().cloned() else { return };
    let outcome = match lost {
        Lost::Cancelled | Lost::DeadlinePassed => AttemptOutcome::Cancelled,
        Lost::TimedOut => AttemptOutcome::TimedOut,
        _ => AttemptOutcome::Revoked,
    };
    let holder = holder(execution, &lease);
    end_attempt(execution, now, Ending { how: How::Lost(lost), outcome, error: None });
    ws.emit(execution, now, Fact::LeaseRevoked { holder, by });
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_execution_lives_from_create_to_end_with_nothing_in_between() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let fence = bench.active();
            assert_eq!(bench.state(fence.execution), ("active", "running"));
            bench.ok(complete(fence));
            assert_eq!(bench.state(fence.execution), ("completed", "succeeded"));
            let facts = ["created", "lease_acquired", "started", "lease_released", "completed"];
            assert_eq!(bench.facts(fence.execution), facts);
        }
    }

    #[test]
    fn an_attempt_that_was_put_off_ends_with_its_execution_and_a_replay_starts_a_new_one() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(delay(first, 60_000));
        bench.ok(cancel(first.execution, None));
        let attempt = bench.get(first.execution).live.attempt.as_ref().unwrap();
        assert_eq!(attempt.end.as_ref().unwrap().outcome, AttemptOutcome::Cancelled);
        bench.ok(replay(first.execution));
        let second = bench.claim();
        assert_eq!((second.attempt, second.epoch), (2, 2));
        assert_eq!(bench.get(first.execution).live.attempt.as_ref().unwrap().series, 2);
    }

    #[test]
    fn a_lost_lease_backs_off_like_a_failure_whether_it_counts_or_not() {
        for lease_loss in [LeaseLoss::Uncounted, LeaseLoss::Counts] {
            let mut bench = Bench::new();
            let id = bench.active_with(|it| it.policy.lease_loss = lease_loss).execution;
            for backoff_ms in [1_000, 2_000] {
                let lost_at = bench.get(id).live.timer.unwrap();
                bench.pass(lost_at - bench.now);
                let State::Delayed { until, reason: Reason::RetryBackoff } = bench.get(id).live.state else {
                    panic!("{:?}", bench.get(id))
                };
                assert_eq!(until - lost_at, backoff_ms, "{lease_loss:?}");
                bench.pass(backoff_ms);
                bench.claim();
            }
        }
    }
}
