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

/// Ends an execution before it is done. Repeating it is harmless; what was said first stands.
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
            State::Ready { .. }
            | State::Delayed { .. }
            | State::Blocked { .. }
            | State::Suspended(_)
            | State::Held { .. } => {
                finish_cancelled(ws, &mut execution, now, wish);
            }
        }
        ws.put_execution(execution, now);
        Ok(Reply::Cancelled { state: PublicState::Cancelled, cut_at: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::When;
    use super::super::testing::*;
    use super::*;
    use crate::execution::Fence;

    #[test]
    fn work_that_does_not_run_is_cancelled_at_once_whatever_the_grace() {
        type Bring = fn(&mut Bench) -> ExecutionId;
        let states: [(&str, Bring); 6] = [
            ("ready", |bench| bench.create()),
            ("waiting for its start", |bench| bench.create_with(|it| it.start = Some(When::In(9_000)))),
            ("backing off", |bench| {
                let fence = bench.active();
                bench.ok(fail(fence));
                fence.execution
            }),
            ("put off", |bench| {
                let fence = bench.active();
                bench.ok(delay(fence, 9_000));
                fence.execution
            }),
            ("ready after a delay", |bench| {
                let fence = bench.active();
                bench.ok(delay(fence, 0));
                bench.pass(0);
                fence.execution
            }),
            ("held", |bench| {
                let id = bench.create();
                bench.ok(hold(id));
                id
            }),
        ];
        for (name, bring) in states {
            for grace_ms in [None, Some(5_000)] {
                let mut bench = Bench::new();
                let id = bring(&mut bench);
                let done = Reply::Cancelled { state: PublicState::Cancelled, cut_at: None };
                assert_eq!(bench.ok(cancel(id, grace_ms)), done, "{name}");
                assert_eq!(bench.state(id), ("cancelled", "cancelled_by_request"), "{name}");
                assert_eq!(bench.facts(id).last(), Some(&"cancelled"));
                assert!(!bench.facts(id).contains(&"lease_revoked"), "no revoke event without a lease");
            }
        }
    }

    #[test]
    fn running_work_is_cut_off_at_once_without_a_grace() {
        for grace_ms in [None, Some(0)] {
            let mut bench = Bench::new();
            let fence = bench.active();
            bench.ok(cancel(fence.execution, grace_ms));
            assert_eq!(bench.state(fence.execution).0, "cancelled");
            let facts = bench.facts(fence.execution);
            assert_eq!(facts[facts.len() - 2..], ["lease_revoked", "cancelled"]);
            let lost = bench.refused(complete(fence));
            assert!(matches!(lost, Rejection::LeaseLost { reason: Lost::Cancelled, .. }));
        }
    }

    #[test]
    fn in_its_grace_the_worker_is_told_and_then_cut_off() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let cut_at = bench.now + 5_000;
        let asked = Reply::Cancelled { state: PublicState::Active, cut_at: Some(cut_at) };
        assert_eq!(bench.ok(cancel(fence.execution, Some(5_000))), asked);
        assert_eq!(bench.state(fence.execution), ("active", "cancel_requested"));
        bench.pass(4_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution).0, "cancelled");
        assert!(matches!(bench.refused(fail(fence)), Rejection::LeaseLost { reason: Lost::Cancelled, .. }));
    }

    #[test]
    fn the_first_cause_actor_and_time_stand_however_often_it_is_said() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let id = fence.execution;
        let first_at = bench.now;
        bench.ok(Cancel { actor: "ann".into(), cause: "first".into(), ..cancel(id, Some(5_000)) });
        bench.jump(1_000);
        let again = bench.ok(Cancel { cause: "second".into(), ..cancel(id, Some(60_000)) });
        assert_eq!(again, Reply::Cancelled { state: PublicState::Active, cut_at: Some(first_at + 5_000) });
        bench.ok(Cancel { cause: "third, at once".into(), ..cancel(id, None) });
        assert_eq!(bench.state(id).0, "cancelled");
        bench.ok(Cancel { cause: "fourth".into(), ..cancel(id, None) });
        let by = bench.get(id).end().unwrap().cancelled.clone().unwrap();
        assert_eq!((&*by.actor, &*by.cause, by.at), ("ann", "first", first_at));
        assert_eq!(bench.facts(id).iter().filter(|word| **word == "cancelled").count(), 1);
    }

    #[test]
    fn whatever_ends_the_lease_in_its_grace_other_than_completion_cancels() {
        type End = fn(&mut Bench, Fence);
        let endings: [(&str, End); 8] = [
            ("fail", |bench, fence| drop(bench.ok(fail(fence)))),
            ("delay", |bench, fence| drop(bench.ok(delay(fence, 1)))),
            ("release", |bench, fence| drop(bench.ok(release(fence)))),
            ("revoke", |bench, fence| drop(bench.ok(revoke(fence.execution)))),
            ("hold", |bench, fence| drop(bench.ok(hold(fence.execution)))),
            ("lease expiry", |bench, _| bench.pass(30_000)),
            ("attempt timeout", |bench, _| bench.pass(20_000)),
            ("worker death", |bench, _| {
                bench.ok(bury(bench.worker));
                bench.pass(0);
            }),
        ];
        for (name, end) in endings {
            let mut bench = Bench::new();
            let timeout = (name == "attempt timeout").then_some(20_000);
            let fence = bench.active_with(|it| it.policy.attempt_timeout_ms = timeout);
            bench.ok(cancel(fence.execution, Some(60_000)));
            end(&mut bench, fence);
            assert_eq!(bench.state(fence.execution), ("cancelled", "cancelled_by_request"), "{name}");
            assert_eq!(bench.get(fence.execution).live.series.spent, 0, "{name}");
        }
    }

    #[test]
    fn what_ended_otherwise_is_not_cancelled_any_more() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        let refusal = bench.refused(cancel(fence.execution, None));
        assert!(matches!(refusal, Rejection::Terminal { state: PublicState::Completed, .. }));
    }
}
