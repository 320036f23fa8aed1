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

#[derive(Clone, Debug, PartialEq)]
pub struct BuryWorker {
    pub instance: InstanceId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl BuryWorker {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let Some(worker) = ws.worker(self.instance).cloned() else {
            return Err(Rejection::NotFound { what: "worker instance", id: self.instance.to_string() }.into());
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
