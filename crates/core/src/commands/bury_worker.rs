//! Bury a worker instance: it is dead; its leases return at once, in every partition.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::InstanceId;
use crate::message::Message;
use crate::rejection::Rejection;
use crate::reply::{Delivery, Reply};
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

/// Declares a worker instance dead.
#[derive(Clone, Debug, PartialEq)]
pub struct BuryWorker {
    pub instance: InstanceId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl BuryWorker {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let Some(worker) = ws.worker(self.instance).cloned() else {
            return Err(Rejection::NotFound {
                what: "worker instance".into(),
                id: self.instance.to_string(),
            }
            .into());
        };
        if worker.mode == WorkerMode::Dead {
            let deliveries = ws.broadcast_again(Message::Worker(worker.copy()), now);
            return Ok(Reply::Worker { mode: WorkerMode::Dead, deliveries });
        }
        let deliveries = bury(ws, self.instance, now, &self.actor, &self.cause);
        Ok(Reply::Worker { mode: WorkerMode::Dead, deliveries })
    }
}

/// Declares an instance dead at its home and tells every partition.
pub(super) fn bury(
    ws: &mut Workspace,
    instance: InstanceId,
    now: Ms,
    actor: &str,
    cause: &str,
) -> Vec<Delivery> {
    let Some(worker) = ws.worker(instance) else { return Vec::new() };
    let dead = WorkerInstance {
        mode: WorkerMode::Dead,
        expires_at: None,
        timer: None,
        died_at: Some(now),
        releasing_since: Some(now),
        revision: worker.revision + 1,
        actor: actor.into(),
        cause: cause.into(),
        ..(**worker).clone()
    };
    let (worker, by) = (dead.name.clone(), By::new(actor, cause));
    ws.emit_global(None, now, Fact::WorkerDied { worker, instance, by });
    ws.put_worker(dead.clone());
    ws.broadcast(Message::Worker(dead), now)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bury, *};
    use super::*;

    #[test]
    fn the_leases_of_a_dead_instance_return_at_once_and_others_stay() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let other = bench.new_instance();
            bench.ok(bench.registration(other));
            let (a, b) = (bench.active(), bench.active());
            bench.create();
            let stays = bench.claim_with(super::super::Poll { instance: other, ..bench.poll() }, 1)[0];
            bench.ok(bury(bench.worker));
            bench.pass(0);
            for fence in [a, b] {
                assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
                assert_eq!(bench.get(fence.execution).live.series.spent, 0);
            }
            assert_eq!(bench.state(stays.execution).0, "active");
            let worker = &bench.store.workers[&bench.worker];
            assert_eq!((worker.mode, worker.releasing_since), (WorkerMode::Dead, None));
        }
    }

    #[test]
    fn more_leases_than_one_step_takes_return_step_by_step() {
        let mut bench = Bench::new();
        bench.batch_size = 0;
        for _ in 0..1_100 {
            bench.create();
        }
        assert_eq!(bench.claim_with(bench.poll(), 2_000).len(), 1_100);
        bench.ok(bury(bench.worker));
        bench.pass(0);
        assert!(bench.store.executions.values().all(|it| it.lease().is_none()));
    }

    #[test]
    fn a_dead_instance_stays_dead() {
        let mut bench = Bench::new();
        bench.ok(bury(bench.worker));
        let died_at = bench.now;
        bench.jump(5);
        let again = Reply::Worker { mode: WorkerMode::Dead, deliveries: vec![] };
        assert_eq!(bench.ok(bury(bench.worker)), again);
        assert_eq!(bench.store.workers[&bench.worker].died_at, Some(died_at));
        let heartbeat = super::super::Heartbeat { instance: bench.worker };
        assert_eq!(bench.refused(heartbeat).code(), "worker_dead");
        assert_eq!(bench.refused(bench.registration(bench.worker)).code(), "worker_dead");
        assert_eq!(bench.ok(drain(bench.worker)), again);
        let unknown = bench.new_instance();
        assert_eq!(bench.refused(bury(unknown)).code(), "not_found");
    }

    #[test]
    fn every_other_partition_is_told() {
        let mut bench = Bench::of(crate::id::PartitionId(1), 3, crate::limits::Limits::default());
        let Reply::Worker { deliveries, .. } = bench.ok(bury(bench.worker)) else { panic!() };
        let told: Vec<_> = deliveries.iter().map(|it| (it.to.0, it.number)).collect();
        assert_eq!(told, [(0, 2), (2, 2)], "the registration was the first message");
        assert_eq!(bench.messages().len(), 4);
    }
}
