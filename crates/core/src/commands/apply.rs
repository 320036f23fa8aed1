//! Apply a message from another partition: in order, exactly once.

use std::sync::Arc;

use super::Decision;
use crate::Ms;
use crate::id::PartitionId;
use crate::message::Message;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    pub from: PartitionId,
    pub number: u64,
    pub message: Arc<Message>,
}

impl Apply {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut link = ws.link(self.from);
        let expected = link.received + 1;
        if self.number < expected {
            return Ok(Reply::Applied);
        }
        if self.number > expected {
            let (from, number) = (self.from.0, self.number);
            return Err(Rejection::MessageGap { from, number, expected }.into());
        }
        link.received = self.number;
        ws.put_link(link);
        match &*self.message {
            Message::Lane(lane) if ws.lane(&lane.name).revision < lane.revision => {
                ws.put_lane(lane.clone());
            }
            Message::Worker(worker) => apply_worker(ws, worker, now),
            Message::Lane(_) => {}
        }
        Ok(Reply::Applied)
    }
}

fn apply_worker(ws: &mut Workspace, worker: &WorkerInstance, now: Ms) {
    if ws.worker(worker.instance).is_some_and(|known| known.revision >= worker.revision) {
        return;
    }
    let releasing_since = (worker.mode == WorkerMode::Dead).then_some(now);
    ws.put_worker(WorkerInstance { releasing_since, ..worker.clone() });
}
