//! Fire: an agenda entry is due.

use super::bury_worker::bury;
use super::flows::{admit, walk_step};
use super::lifecycle::{
    Ending, Failure, end_attempt, finish_cancelled, finish_expired, holder, lose_lease, make_ready,
    retry_or_fail, revoke_lease,
};
use super::start_child::cancel_children;
use super::{Decision, append, mail, sweep};
use crate::Ms;
use crate::agenda::{AgendaKey, Subject};
use crate::attempt::TaskError;
use crate::event::{By, Fact};
use crate::execution::{Execution, Guard, How, State};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::rejection::Lost;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::worker::WorkerInstance;
use crate::workspace::{Stop, Todo, Workspace};

/// How many leases of a dead worker return in one step.
const LEASES_PER_STEP: usize = 500;

/// An entry of the agenda has fallen due.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    pub entry: AgendaKey,
    /// Decides the jitter of a backoff.
    pub seed: u64,
    /// The store was out of reach while this was due: leases get one more renewal interval first, so that
    /// an outage does not run everything twice.
    pub after_outage: bool,
}

impl Fire {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        if self.entry.due > now {
            return Ok(Reply::Fired { effect: false });
        }
        match self.entry.subject {
            Subject::Timer(id) => self.timer(ws, now, id),
            Subject::WorkerTimer(instance) => self.worker_timer(ws, now, instance),
            Subject::WorkerLeases(instance) => self.worker_leases(ws, now, instance),
            Subject::Cascade(id) => self.cascade(ws, id),
            Subject::Members(id) => self.members(ws, now, id),
            Subject::Children(id) => self.children(ws, now, id),
            Subject::Frames(id) => self.frames(ws, now, id),
            Subject::Sweep if ws.header().sweep_at == Some(self.entry.due) => sweep::sweep(ws, now),
            // The engine delivers messages itself; nothing is decided here.
            Subject::Deliver { .. } => Ok(Reply::Fired { effect: false }),
            Subject::Sweep => self.stray(ws),
        }
    }

    /// An entry whose reason is gone; only a damaged store has one.
    fn stray(&self, ws: &mut Workspace) -> Decision {
        if ws.agenda().contains(&self.entry) {
            ws.strike(self.entry);
        }
        Ok(Reply::Fired { effect: false })
    }

    fn timer(&self, ws: &mut Workspace, now: Ms, id: ExecutionId) -> Decision {
        let Some(current) = ws.execution(id)?.cloned() else { return self.stray(ws) };
        if current.live.timer != Some(self.entry.due) {
            return self.stray(ws);
        }
        let mut execution = (*current).clone();
        // Storing the execution arms the timer again for whatever guard stands then.
        execution.live.timer = None;
        let due = execution.earliest_guard().filter(|(at, _)| *at <= now);
        if let Some((_, guard)) = due {
            self.pass(ws, &mut execution, now, guard);
        }
        ws.put_execution(execution, now);
        Ok(Reply::Fired { effect: due.is_some() })
    }

    /// A time limit has been reached.
    fn pass(&self, ws: &mut Workspace, execution: &mut Execution, now: Ms, guard: Guard) {
        match guard {
            Guard::Wake => {
                let State::Delayed { until, .. } = execution.live.state else { return };
                if execution.child_flow().is_some() {
                    return admit(ws, execution, now);
                }
                let number = ws.emit(execution, now, Fact::Woken);
                make_ready(ws, execution, now, until, number);
            }
            Guard::LeaseExpiry if self.after_outage => {
                let renewal_ms = execution.spec.policy.lease_ms / 3;
                if let State::Active(lease) = &mut execution.live.state {
                    lease.expires_at = now.saturating_add(renewal_ms);
                }
            }
            Guard::LeaseExpiry => lose_lease(ws, execution, now, Lost::Expired, self.seed),
            Guard::AttemptTimeout => self.time_out(ws, execution, now),
            Guard::CancelGrace => {
                let Some(cancel) = execution.lease().and_then(|lease| lease.cancel.clone()) else { return };
                let by = By::new(&cancel.cancellation.actor, &cancel.cancellation.cause);
                revoke_lease(ws, execution, now, Lost::Cancelled, by);
                finish_cancelled(ws, execution, now, cancel.cancellation);
            }
            Guard::SuspensionTimeout => mail::time_out(ws, execution, now),
            Guard::WaitpointExpiry => mail::expire_waitpoints(ws, execution, now),
            Guard::ScheduleToStart => finish_expired(ws, execution, now, Reason::ScheduleToStartPassed),
            Guard::Deadline => {
                revoke_lease(ws, execution, now, Lost::DeadlinePassed, By::new("system", "deadline passed"));
                finish_expired(ws, execution, now, Reason::DeadlinePassed);
            }
        }
    }

    /// The attempt has held leases for too long: a failure that spends it.
    fn time_out(&self, ws: &mut Workspace, execution: &mut Execution, now: Ms) {
        let Some(lease) = execution.lease().cloned() else { return };
        let limit = execution.spec.policy.attempt_timeout_ms.unwrap_or(0);
        let error = TaskError::new("attempt_timeout", format!("the attempt ran longer than {limit} ms"));
        let holder = holder(execution, &lease);
        let outcome = AttemptOutcome::TimedOut;
        let ending = Ending { how: How::Lost(Lost::TimedOut), outcome, error: Some(error.clone()) };
        end_attempt(execution, now, ending);
        ws.emit(execution, now, Fact::LeaseRevoked { holder, by: By::new("system", "attempt timeout") });
        if let Some(cancel) = lease.cancel {
            return finish_cancelled(ws, execution, now, cancel.cancellation);
        }
        execution.live.series.spent += 1;
        execution.live.series.losses = 0;
        let failure = Failure { outcome, error: Some(error), retry_after_ms: None, seed: self.seed };
        retry_or_fail(ws, execution, now, failure);
    }

    /// Goes on passing a member's news to its neighbours.
    fn cascade(&self, ws: &mut Workspace, id: ExecutionId) -> Decision {
        let passing = ws.execution(id)?.and_then(|it| it.node()).and_then(|node| node.passing);
        if passing.is_none_or(|passing| passing.since != self.entry.due) {
            return self.stray(ws);
        }
        ws.follow_up(Todo::Pass(id));
        Ok(Reply::Fired { effect: true })
    }

    /// Goes on visiting the members of a flow.
    fn members(&self, ws: &mut Workspace, now: Ms, id: FlowId) -> Decision {
        let walk = ws.flow(id)?.and_then(|flow| flow.live.walk);
        if walk.is_none_or(|walk| walk.since != self.entry.due) {
            return self.stray(ws);
        }
        walk_step(ws, now, id)?;
        Ok(Reply::Fired { effect: true })
    }

    /// Cancels children that an ended execution has left behind.
    fn children(&self, ws: &mut Workspace, now: Ms, id: ExecutionId) -> Decision {
        let parent = ws.execution(id)?;
        let ended_at = parent.filter(|it| it.has_children()).and_then(|it| it.end()).map(|end| end.at);
        if ended_at != Some(self.entry.due) {
            return self.stray(ws);
        }
        Ok(Reply::Fired { effect: cancel_children(ws, now, id)? })
    }

    /// Removes frames that are too old.
    fn frames(&self, ws: &mut Workspace, now: Ms, id: ExecutionId) -> Decision {
        if ws.stream(id)?.and_then(|stream| stream.trim_at) != Some(self.entry.due) {
            return self.stray(ws);
        }
        append::trim(ws, now, id)?;
        Ok(Reply::Fired { effect: true })
    }

    fn worker_timer(&self, ws: &mut Workspace, now: Ms, instance: InstanceId) -> Decision {
        let Some(worker) = ws.worker(instance).filter(|it| it.timer == Some(self.entry.due)) else {
            return self.stray(ws);
        };
        let expires_at = worker.expires_at.unwrap_or(now);
        if self.after_outage || expires_at > now {
            let quiet_ms = if self.after_outage { worker.ttl_ms } else { 0 };
            let timer = Some(expires_at.max(now.saturating_add(quiet_ms)));
            let worker = WorkerInstance { timer, expires_at: timer, ..(**worker).clone() };
            ws.put_worker(worker);
            return Ok(Reply::Fired { effect: false });
        }
        bury(ws, instance, now, "system", "no heartbeat");
        Ok(Reply::Fired { effect: true })
    }

    /// Gives back the leases of a dead instance, some hundred at a time.
    fn worker_leases(&self, ws: &mut Workspace, now: Ms, instance: InstanceId) -> Decision {
        let Some(worker) =
            ws.worker(instance).filter(|it| it.releasing_since == Some(self.entry.due)).cloned()
        else {
            return self.stray(ws);
        };
        let mut held: Vec<ExecutionId> = ws.leases_of(instance).collect();
        held.sort_unstable();
        let more = held.len() > LEASES_PER_STEP;
        held.truncate(LEASES_PER_STEP);
        let mut unknown = Vec::new();
        for id in &held {
            if let Err(Stop::Need(asks)) = ws.execution(*id) {
                unknown.extend(asks);
            }
        }
        if !unknown.is_empty() {
            return Err(Stop::Need(unknown));
        }
        for (n, id) in held.iter().enumerate() {
            let Some(execution) = ws.execution(*id)? else { continue };
            let mut execution = (**execution).clone();
            lose_lease(ws, &mut execution, now, Lost::WorkerDied, self.seed.wrapping_add(n as u64));
            ws.put_execution(execution, now);
        }
        if !more {
            ws.put_worker(WorkerInstance { releasing_since: None, ..(*worker).clone() });
        }
        Ok(Reply::Fired { effect: !held.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bury, *};
    use super::super::{Fail, When};
    use super::*;
    use crate::execution::Fence;
    use crate::lane::LaneMode;
    use crate::policy::LeaseLoss;
    use crate::rejection::Rejection;

    #[test]
    fn after_every_way_a_lease_is_lost_old_calls_change_nothing() {
        type Lose = fn(&mut Bench, Fence);
        let losses: [(Lost, Lose); 7] = [
            (Lost::Expired, |bench, _| bench.pass(30_000)),
            (Lost::TimedOut, |bench, _| bench.pass(20_000)),
            (Lost::DeadlinePassed, |bench, _| bench.pass(10_000)),
            (Lost::Revoked, |bench, fence| drop(bench.ok(revoke(fence.execution)))),
            (Lost::Held, |bench, fence| drop(bench.ok(hold(fence.execution)))),
            (Lost::Cancelled, |bench, fence| drop(bench.ok(cancel(fence.execution, None)))),
            (Lost::WorkerDied, |bench, _| {
                bench.ok(bury(bench.worker));
                bench.pass(0);
            }),
        ];
        for (reason, lose) in losses {
            let mut bench = Bench::new();
            let fence = bench.active_with(|it| {
                it.policy.attempt_timeout_ms = (reason == Lost::TimedOut).then_some(20_000);
                it.deadline = (reason == Lost::DeadlinePassed).then_some(When::In(10_000));
            });
            lose(&mut bench, fence);
            let before = bench.get(fence.execution).clone();
            for call in worker_calls(fence) {
                let refusal = match bench.run(call) {
                    Ok(Reply::Renewed(renewals)) => renewals[0].clone().unwrap_err(),
                    other => other.unwrap_err(),
                };
                let Rejection::LeaseLost { reason: said, .. } = refusal else { panic!("{refusal:?}") };
                assert_eq!(said, reason);
            }
            assert_eq!(*bench.get(fence.execution), before);
        }
    }

    #[test]
    fn a_lost_lease_spends_nothing_until_too_many_in_a_row_are_a_crash_loop() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.max_attempts = 1);
        for loss in 1..=5 {
            bench.claim();
            bench.pass(30_000);
            let series = &bench.get(id).live.series;
            assert_eq!((series.spent, series.losses), (0, loss));
            if loss < 5 {
                assert_eq!(bench.state(id), ("delayed", "retry_backoff"));
                bench.pass(60_000);
            }
        }
        assert_eq!(bench.state(id), ("failed", "crash_loop"));
        assert_eq!(bench.get(id).end().unwrap().error.as_ref().unwrap().code.as_deref(), Some("crash_loop"));
    }

    #[test]
    fn a_worker_that_ended_its_lease_breaks_the_row_of_losses() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.losses_max = 2);
        bench.claim();
        bench.pass(40_000);
        let fence = bench.claim();
        bench.ok(fail(fence));
        bench.pass(40_000);
        bench.claim();
        bench.pass(30_000);
        assert_eq!(bench.state(id), ("delayed", "retry_backoff"));
    }

    #[test]
    fn where_losses_count_they_spend_attempts_and_the_last_one_expires_it() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| {
            it.policy.lease_loss = LeaseLoss::Counts;
            it.policy.max_attempts = 2;
        });
        bench.claim();
        bench.pass(40_000);
        bench.claim();
        bench.pass(30_000);
        assert_eq!(bench.state(id), ("expired", "lease_lost"));
        assert_eq!(bench.get(id).live.series.spent, 2);
    }

    #[test]
    fn lease_grace_delays_expiry() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.lease_grace_ms = 5_000);
        bench.pass(34_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution).0, "delayed");
    }

    #[test]
    fn an_attempt_timeout_is_a_failure_that_renewals_do_not_put_off() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| {
            it.policy.attempt_timeout_ms = Some(45_000);
            it.policy.max_attempts = 1;
        });
        bench.pass(20_000);
        bench.ok(renew(fence));
        bench.pass(20_000);
        bench.ok(renew(fence));
        bench.pass(5_000);
        assert_eq!(bench.state(fence.execution), ("failed", "attempts_exhausted"));
        let end = bench.get(fence.execution).live.attempt.clone().unwrap().end.unwrap();
        assert_eq!(end.outcome, AttemptOutcome::TimedOut);
        assert_eq!(end.error.unwrap().code.as_deref(), Some("attempt_timeout"));
    }

    #[test]
    fn waiting_for_a_worker_is_limited_each_time_it_becomes_ready() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.schedule_to_start_ms = Some(5_000));
        bench.pass(4_000);
        let fence = bench.claim();
        bench.ok(fail(fence));
        bench.pass(1_000);
        bench.pass(4_999);
        assert_eq!(bench.state(id), ("waiting", "waiting_for_worker"));
        bench.pass(1);
        assert_eq!(bench.state(id), ("expired", "schedule_to_start_passed"));
    }

    #[test]
    fn pausing_the_lane_does_not_stop_the_limit_on_waiting_for_a_worker() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.schedule_to_start_ms = Some(5_000));
        bench.set_lane_mode("default", LaneMode::Paused);
        bench.pass(5_000);
        assert_eq!(bench.state(id), ("expired", "schedule_to_start_passed"));
    }

    #[test]
    fn the_deadline_fires_in_every_state_that_has_not_ended() {
        type Bring = fn(&mut Bench, ExecutionId);
        let states: [(&str, Bring); 6] = [
            ("ready", |_, _| {}),
            ("active", |bench, _| {
                bench.claim();
            }),
            ("cancel asked for", |bench, id| {
                bench.claim();
                bench.ok(cancel(id, Some(60_000)));
            }),
            ("backing off", |bench, _| {
                let fence = bench.claim();
                bench.ok(Fail { retry_after_ms: Some(60_000), ..fail(fence) });
            }),
            ("put off", |bench, _| {
                let fence = bench.claim();
                bench.ok(delay(fence, 60_000));
            }),
            ("held", |bench, id| drop(bench.ok(hold(id)))),
        ];
        for (name, bring) in states {
            let mut bench = Bench::new();
            let id = bench.create_with(|it| it.deadline = Some(When::In(10_000)));
            bring(&mut bench, id);
            bench.pass(9_999);
            assert_ne!(bench.state(id).0, "expired", "{name}");
            bench.pass(1);
            assert_eq!(bench.state(id), ("expired", "deadline_passed"), "{name}");
        }
    }

    #[test]
    fn of_several_limits_that_have_passed_the_earliest_acts_first() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.deadline = Some(When::In(40_000)));
        bench.jump(50_000);
        bench.pass(0);
        let facts = bench.facts(fence.execution);
        assert_eq!(facts[facts.len() - 3..], ["lease_expired", "retried", "expired"]);
    }

    #[test]
    fn after_an_outage_a_lease_gets_one_more_renewal_interval() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.jump(60_000);
        let entry = bench.timer(fence.execution).unwrap();
        bench.ok(Fire { entry, seed: 0, after_outage: true });
        assert_eq!(bench.get(fence.execution).lease().unwrap().expires_at, bench.now + 10_000);
        bench.pass(9_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution).0, "delayed");
    }

    #[test]
    fn an_outage_puts_off_nothing_but_leases() {
        let mut bench = Bench::new();
        let late = bench.create_with(|it| it.start = Some(When::In(5_000)));
        bench.jump(60_000);
        let entry = bench.timer(late).unwrap();
        bench.ok(Fire { entry, seed: 0, after_outage: true });
        assert_eq!(bench.state(late).0, "waiting");
    }

    #[test]
    fn an_entry_that_fires_early_or_under_an_old_key_does_nothing() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let entry = bench.timer(fence.execution).unwrap();
        let before = bench.store.clone();
        let nothing = Reply::Fired { effect: false };
        bench.jump(29_000);
        assert_eq!(bench.fire(entry), nothing, "not due yet");
        assert_eq!(bench.store.executions, before.executions);
        bench.ok(renew(fence));
        let renewed = bench.get(fence.execution).clone();
        let stale = [
            AgendaKey { due: entry.due - 1, ..entry },
            AgendaKey { due: 0, ..entry },
            AgendaKey { due: 0, subject: Subject::Timer(bench.next_id()) },
            AgendaKey { due: 0, subject: Subject::WorkerTimer(bench.worker) },
            AgendaKey { due: 0, subject: Subject::WorkerLeases(bench.worker) },
            AgendaKey { due: 0, subject: Subject::Deliver { to: crate::id::PartitionId(1), number: 1 } },
        ];
        for key in stale {
            assert_eq!(bench.fire(key), nothing, "{key:?}");
        }
        assert_eq!(*bench.get(fence.execution), renewed);
        assert_eq!(bench.store.agenda, before.agenda);
        // The timer itself is early now, because the lease was renewed: it is armed again.
        bench.jump(1_000);
        assert_eq!(bench.fire(entry), nothing);
        assert_eq!(bench.timer(fence.execution).unwrap().due, START + 59_000);
    }

    #[test]
    fn a_stray_entry_of_a_damaged_store_is_struck() {
        let mut bench = Bench::new();
        let key = AgendaKey { due: START, subject: Subject::Timer(bench.next_id()) };
        bench.store.agenda.insert(key, None);
        bench.reopen();
        bench.fire(key);
        assert!(!bench.store.agenda.contains_key(&key));
    }
}
