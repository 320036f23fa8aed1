//! Fire: an agenda entry is due.

use super::bury_worker::bury;
use super::lifecycle::{
    Ending, Failure, end_attempt, finish_cancelled, finish_expired, holder, lose_lease, make_ready,
    retry_or_fail, revoke_lease,
};
use super::{Decision, sweep};
use crate::Ms;
use crate::agenda::{AgendaKey, Subject};
use crate::attempt::TaskError;
use crate::event::{By, Fact};
use crate::execution::{Execution, Guard, How, State};
use crate::id::{ExecutionId, InstanceId};
use crate::rejection::Lost;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::worker::WorkerInstance;
use crate::workspace::{Stop, Workspace};

/// How many leases of a dead worker return in one step.
const LEASES_PER_STEP: usize = 500;

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
