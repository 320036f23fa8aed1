//! Heartbeat: a worker instance is alive, and learns whether it should drain.

use super::Decision;
use crate::Ms;
use crate::id::InstanceId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

/// A sign of life from a worker instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    pub instance: InstanceId,
}

impl Heartbeat {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let instance = self.instance.to_string();
        let Some(worker) = ws.worker(self.instance) else {
            return Err(Rejection::WorkerUnknown { instance }.into());
        };
        if worker.mode == WorkerMode::Dead {
            return Err(Rejection::WorkerDead { instance, at: worker.died_at.unwrap_or(0) }.into());
        }
        let mode = worker.mode;
        // The timer stays where it is; it is armed again when it fires.
        let expires_at = Some(now.saturating_add(worker.ttl_ms));
        let worker = WorkerInstance { expires_at, ..(**worker).clone() };
        ws.put_worker(worker);
        Ok(Reply::Worker { mode, deliveries: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_heartbeat_tells_the_instance_what_it_should_do() {
        let mut bench = Bench::new();
        let beat = Heartbeat { instance: bench.worker };
        assert!(matches!(bench.ok(beat.clone()), Reply::Worker { mode: WorkerMode::Active, .. }));
        bench.ok(drain(bench.worker));
        assert!(matches!(bench.ok(beat), Reply::Worker { mode: WorkerMode::Draining, .. }));
        let stranger = Heartbeat { instance: bench.new_instance() };
        assert_eq!(bench.refused(stranger).code(), "worker_unknown");
    }
}
