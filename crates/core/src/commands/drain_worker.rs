//! Drain a worker instance: it ends what it holds and gets nothing new, anywhere.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::InstanceId;
use crate::message::Message;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

/// Lets a worker instance end what it holds and gives it nothing new.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainWorker {
    pub instance: InstanceId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl DrainWorker {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let Some(worker) = ws.worker(self.instance).cloned() else {
            return Err(Rejection::NotFound {
                what: "worker instance".into(),
                id: self.instance.to_string(),
            }
            .into());
        };
        if worker.mode != WorkerMode::Active {
            let deliveries = ws.broadcast_again(Message::Worker(worker.copy()), now);
            return Ok(Reply::Worker { mode: worker.mode, deliveries });
        }
        let worker = WorkerInstance {
            mode: WorkerMode::Draining,
            revision: worker.revision + 1,
            actor: self.actor.clone(),
            cause: self.cause.clone(),
            ..(*worker).clone()
        };
        let by = By::new(&self.actor, &self.cause);
        let (name, instance) = (worker.name.clone(), worker.instance);
        ws.emit_global(None, now, Fact::WorkerDrained { worker: name, instance, by });
        let copy = worker.copy();
        ws.put_worker(worker);
        let deliveries = ws.broadcast(Message::Worker(copy), now);
        Ok(Reply::Worker { mode: WorkerMode::Draining, deliveries })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn a_draining_instance_ends_what_it_holds_and_gets_nothing_new() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.create();
        bench.ok(drain(bench.worker));
        bench.ok(drain(bench.worker));
        let claim = super::super::Claim { poll: std::sync::Arc::new(bench.poll()), max: 1 };
        assert_eq!(bench.refused(claim).code(), "worker_draining");
        bench.ok(renew(fence));
        bench.ok(complete(fence));
        let drained = bench.store.events.iter().filter(|it| it.fact.word() == "worker_drained");
        assert_eq!(drained.count(), 1);
        let unknown = bench.new_instance();
        assert_eq!(bench.refused(drain(unknown)).code(), "not_found");
    }
}
