//! Hold: an operator stops one execution until somebody releases it.

use super::Decision;
use super::lifecycle::{finish_cancelled, revoke_lease};
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::State;
use crate::id::ExecutionId;
use crate::rejection::{Invalid, Lost, Rejection};
use crate::reply::Reply;
use crate::state::Reason;
use crate::workspace::Workspace;

/// Stops an execution until it is unheld; a lease is taken away without cost.
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
        let mut suspension = None;
        let (until, reason) = match &execution.live.state {
            State::Held { .. } => return Ok(Reply::Changed(current.clone())),
            State::Ended(end) => {
                let (state, reason) = (end.state, end.reason);
                return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
            }
            State::Delayed { until, reason } => (Some(*until), Some(*reason)),
            State::Blocked { reason: Reason::ChildFlow } => {
                let problem = "is a child flow that has begun; hold its members instead";
                return Err(Invalid::new("execution", problem).into());
            }
            State::Ready { .. } | State::Blocked { .. } => (None, None),
            State::Suspended(it) => {
                suspension = Some(it.clone());
                (None, None)
            }
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
        execution.live.state = State::Held { actor, cause, at: now, until, reason, suspension };
        ws.emit(&execution, now, Fact::Held { by });
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Fail, When};
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

    #[test]
    fn nothing_held_starts_and_unholding_goes_on_from_where_it_was() {
        type Bring = fn(&mut Bench) -> ExecutionId;
        let cases: [(&str, Bring, (&str, &str)); 5] = [
            ("ready", |bench| bench.create(), ("waiting", "waiting_for_worker")),
            (
                "waiting for its start",
                |bench| bench.create_with(|it| it.start = Some(When::In(60_000))),
                ("delayed", "waiting_for_delay"),
            ),
            (
                "backing off",
                |bench| {
                    let fence = bench.active();
                    bench.ok(Fail { retry_after_ms: Some(60_000), ..fail(fence) });
                    fence.execution
                },
                ("delayed", "retry_backoff"),
            ),
            (
                "put off",
                |bench| {
                    let fence = bench.active();
                    bench.ok(delay(fence, 60_000));
                    fence.execution
                },
                ("delayed", "resume_delay"),
            ),
            ("active", |bench| bench.active().execution, ("waiting", "waiting_for_worker")),
        ];
        for (name, bring, after) in cases {
            let mut bench = Bench::new();
            let id = bring(&mut bench);
            bench.ok(hold(id));
            bench.ok(hold(id));
            assert_eq!(bench.state(id), ("waiting", "paused_by_operator"), "{name}");
            bench.pass(10_000);
            assert_eq!(bench.order(bench.poll()), []);
            bench.ok(unhold(id));
            bench.ok(unhold(id));
            assert_eq!(bench.state(id), after, "{name}");
            bench.pass(60_000);
            assert_eq!(bench.order(bench.poll()), [id], "{name}");
        }
    }

    #[test]
    fn a_delay_that_ran_out_while_held_is_over_when_unheld() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.start = Some(When::In(5_000)));
        bench.ok(hold(id));
        bench.pass(5_000);
        assert_eq!(bench.state(id).1, "paused_by_operator");
        bench.ok(unhold(id));
        assert_eq!(bench.state(id).0, "waiting");
    }

    #[test]
    fn holding_running_work_takes_its_lease_away_and_spends_nothing() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(hold(fence.execution));
        let lost = bench.refused(complete(fence));
        assert!(matches!(lost, Rejection::LeaseLost { reason: Lost::Held, .. }));
        assert_eq!(bench.get(fence.execution).live.series.spent, 0);
    }

    #[test]
    fn an_attempt_that_was_put_off_goes_on_after_a_hold() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(delay(fence, 1_000));
        bench.ok(hold(fence.execution));
        bench.ok(unhold(fence.execution));
        bench.pass(1_000);
        assert_eq!(bench.claim().attempt, 1);
    }

    #[test]
    fn a_deadline_passes_while_held() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.deadline = Some(When::In(5_000)));
        bench.ok(hold(id));
        bench.pass(5_000);
        assert_eq!(bench.state(id), ("expired", "deadline_passed"));
        assert_eq!(bench.refused(hold(id)).code(), "terminal");
    }

    #[test]
    fn waiting_for_a_worker_is_not_counted_while_held_and_starts_anew_after() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.schedule_to_start_ms = Some(5_000));
        bench.pass(4_000);
        bench.ok(hold(id));
        bench.pass(60_000);
        bench.ok(unhold(id));
        bench.pass(4_999);
        assert_eq!(bench.state(id).0, "waiting");
        bench.pass(1);
        assert_eq!(bench.state(id), ("expired", "schedule_to_start_passed"));
    }
}
