//! Apply a message from another partition: in order, exactly once.

use std::sync::Arc;

use super::Decision;
use crate::Ms;
use crate::id::PartitionId;
use crate::message::Message;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::suspension::SigningKey;
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::Workspace;

/// A message of another partition, with its number between the two.
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
            Message::Key(key) => apply_key(ws, key),
            Message::Lane(_) => {}
        }
        Ok(Reply::Applied)
    }
}

fn apply_key(ws: &mut Workspace, key: &SigningKey) {
    if ws.signing_key(key.id).is_none_or(|known| known.revision < key.revision) {
        ws.put_signing_key(key.clone());
    }
}

fn apply_worker(ws: &mut Workspace, worker: &WorkerInstance, now: Ms) {
    if ws.worker(worker.instance).is_some_and(|known| known.revision >= worker.revision) {
        return;
    }
    let releasing_since = (worker.mode == WorkerMode::Dead).then_some(now);
    ws.put_worker(WorkerInstance { releasing_since, ..worker.clone() });
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::lane::{Lane, LaneMode};
    use crate::limits::Limits;

    fn paused(revision: u64) -> Arc<Message> {
        let name = crate::name::LaneName::default();
        let lane = Lane { mode: LaneMode::Paused, revision, ..Lane::default_of(name) };
        Arc::new(Message::Lane(lane))
    }

    fn apply(number: u64, message: &Arc<Message>) -> Apply {
        Apply { from: PartitionId(2), number, message: message.clone() }
    }

    #[test]
    fn messages_are_applied_in_order_and_once_and_a_gap_is_refused() {
        let mut bench = Bench::of(PartitionId(0), 3, Limits::default());
        let gap = Rejection::MessageGap { from: 2, number: 2, expected: 1 };
        assert_eq!(bench.refused(apply(2, &paused(1))), gap);
        assert_eq!(bench.ok(apply(1, &paused(1))), Reply::Applied);
        assert_eq!(bench.store.links[&PartitionId(2)].received, 1);
        let other = Arc::new(Message::Lane(Lane { step_ms: 5, revision: 9, ..Lane::default_of(lane("x")) }));
        assert_eq!(bench.ok(apply(1, &other)), Reply::Applied, "an old number is acknowledged again");
        assert!(!bench.store.lanes.contains_key("x"), "and changes nothing");
        assert_eq!(bench.ok(apply(2, &other)), Reply::Applied);
        assert!(bench.store.lanes.contains_key("x"));
    }

    #[test]
    fn an_older_copy_does_not_replace_a_newer_one() {
        let mut bench = Bench::of(PartitionId(0), 3, Limits::default());
        bench.ok(apply(1, &paused(5)));
        let older = Lane { revision: 4, ..Lane::default_of(crate::name::LaneName::default()) };
        bench.ok(apply(2, &Arc::new(Message::Lane(older))));
        assert_eq!(bench.ws.lane(&crate::name::LaneName::default()).mode, LaneMode::Paused);
    }

    #[test]
    fn a_pause_stops_claims_and_a_death_returns_leases_in_every_partition() {
        let mut home = Bench::of(PartitionId(2), 3, Limits::default());
        let registered = home.messages().remove(0).message.unwrap();
        home.ok(bury(home.worker));
        let died = home.messages().pop().unwrap().message.unwrap();
        let mut bench = Bench::of(PartitionId(0), 3, Limits::default());
        bench.worker = home.worker;
        bench.create();
        let claim = super::super::Claim { poll: Arc::new(bench.poll()), max: 1 };
        assert_eq!(bench.refused(claim.clone()).code(), "worker_unknown");
        bench.ok(apply(1, &registered));
        let fence = bench.claim();
        bench.ok(apply(2, &died));
        assert_eq!(bench.refused(claim).code(), "worker_dead");
        bench.pass(0);
        assert_eq!(bench.state(fence.execution).0, "delayed");
        let copy = &bench.store.workers[&home.worker];
        assert_eq!((copy.timer, copy.expires_at), (None, None), "the home alone watches the heartbeat");
        bench.ok(apply(3, &paused(1)));
        bench.pass(10_000);
        assert!(!bench.poll().finds_work(&bench.ws));
    }
}
