//! Register a worker instance. Its home commits, every partition gets a copy, then the caller is answered.

use super::{Decision, check_text};
use crate::Ms;
use crate::class::Capabilities;
use crate::event::Fact;
use crate::id::InstanceId;
use crate::limits::Limits;
use crate::message::Message;
use crate::name::{LaneName, WorkerName};
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

/// Makes a worker instance known; only a known one may claim.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterWorker {
    pub instance: InstanceId,
    pub name: WorkerName,
    pub lanes: Vec<LaneName>,
    pub capabilities: Capabilities,
    pub build: Option<Box<str>>,
    pub server: Option<Box<str>>,
    /// The name of the token with which it is registered, if it is with one.
    pub owner: Option<Box<str>>,
    /// How long it may be silent before it counts as dead.
    pub ttl_ms: Ms,
}

impl RegisterWorker {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("build", self.build.as_deref().unwrap_or_default(), 256)?;
        check_text("server", self.server.as_deref().unwrap_or_default(), 256)?;
        check_text("owner", self.owner.as_deref().unwrap_or_default(), 256)?;
        range("ttl_ms", self.ttl_ms, 1_000, 3_600_000)?;
        if self.lanes.is_empty() || self.lanes.len() > 1_000 {
            let problem = format!("are {} in number; allowed are 1 to 1000", self.lanes.len());
            return Err(Invalid::new("lanes", problem).into());
        }
        let words = self.capabilities.as_slice().len();
        let max = limits.capabilities_max * 8;
        if words > max {
            let problem = format!("are {words} in number; allowed are at most {max}");
            return Err(Invalid::new("capabilities", problem).into());
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        if let Some(worker) = ws.worker(self.instance).cloned() {
            // A repeated registration finds the first; an instance that died must come back as a new one.
            return match (worker.mode, worker.died_at) {
                (WorkerMode::Dead, at) => {
                    let instance = self.instance.to_string();
                    Err(Rejection::WorkerDead { instance, at: at.unwrap_or(0) }.into())
                }
                (mode, _) => {
                    let deliveries = ws.broadcast_again(Message::Worker(worker.copy()), now);
                    Ok(Reply::Worker { mode, deliveries })
                }
            };
        }
        let expires_at = now.saturating_add(self.ttl_ms);
        let worker = WorkerInstance {
            instance: self.instance,
            name: self.name.clone(),
            lanes: self.lanes.clone(),
            capabilities: self.capabilities.clone(),
            build: self.build.clone(),
            server: self.server.clone(),
            owner: self.owner.clone(),
            mode: WorkerMode::Active,
            registered_at: now,
            ttl_ms: self.ttl_ms,
            expires_at: Some(expires_at),
            timer: Some(expires_at),
            died_at: None,
            releasing_since: None,
            revision: 1,
            actor: "".into(),
            cause: "".into(),
        };
        let copy = worker.copy();
        let (name, instance) = (worker.name.clone(), worker.instance);
        ws.emit_global(None, now, Fact::WorkerRegistered { worker: name, instance });
        ws.put_worker(worker);
        let deliveries = ws.broadcast(Message::Worker(copy), now);
        Ok(Reply::Worker { mode: WorkerMode::Active, deliveries })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::agenda::{AgendaKey, Subject};

    #[test]
    fn registering_again_finds_the_first_registration() {
        let mut bench = Bench::new();
        let (first, events) = (bench.store.workers.clone(), bench.store.events.len());
        bench.jump(1_000);
        let again = Reply::Worker { mode: WorkerMode::Active, deliveries: vec![] };
        assert_eq!(bench.ok(bench.registration(bench.worker)), again);
        assert_eq!((bench.store.workers.clone(), bench.store.events.len()), (first, events));
    }

    #[test]
    fn a_silent_instance_dies_and_its_leases_return() {
        let mut bench = Bench::new();
        bench.worker = bench.new_instance();
        bench.ok(RegisterWorker { ttl_ms: 10_000, ..bench.registration(bench.worker) });
        let fence = bench.active();
        bench.pass(6_000);
        bench.ok(super::super::Heartbeat { instance: bench.worker });
        bench.pass(9_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
        assert_eq!(bench.store.workers[&bench.worker].mode, WorkerMode::Dead);
    }

    #[test]
    fn after_an_outage_a_silent_instance_gets_its_time_again() {
        let mut bench = Bench::new();
        bench.worker = bench.new_instance();
        bench.ok(RegisterWorker { ttl_ms: 10_000, ..bench.registration(bench.worker) });
        bench.jump(60_000);
        let subject = Subject::WorkerTimer(bench.worker);
        let due = bench.store.workers[&bench.worker].timer.unwrap();
        bench.ok(super::super::Fire { entry: AgendaKey { due, subject }, seed: 0, after_outage: true });
        bench.pass(9_999);
        assert_eq!(bench.store.workers[&bench.worker].mode, WorkerMode::Active);
        bench.pass(1);
        assert_eq!(bench.store.workers[&bench.worker].mode, WorkerMode::Dead);
    }

    #[test]
    fn what_cannot_be_right_is_refused_at_the_edge() {
        let bench = Bench::new();
        let good = bench.registration(bench.worker);
        let good = RegisterWorker { ttl_ms: 10_000, ..good };
        assert_eq!(good.validate(&Limits::default()), Ok(()));
        let bad = [
            RegisterWorker { ttl_ms: 999, ..good.clone() },
            RegisterWorker { lanes: vec![], ..good.clone() },
            RegisterWorker { build: Some("a\0".into()), ..good.clone() },
            RegisterWorker { server: Some("a\0".into()), ..good.clone() },
        ];
        for registration in bad {
            assert!(registration.validate(&Limits::default()).is_err(), "{registration:?}");
        }
    }
}
