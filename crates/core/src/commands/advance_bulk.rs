//! Move a bulk operation on by one part. A server that goes on from a place it has left is told so, so that no part is
//! counted twice. It is no event: what was done to the executions is.

use std::sync::Arc;

use super::Decision;
use super::start_bulk::forget_old;
use super::take_bulk::require;
use crate::Ms;
use crate::event::Fact;
use crate::id::ExecutionId;
use crate::registry::{BulkCounts, BulkOperation, BulkState, Record, Selection};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// How far a part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// So many of the ids that were left.
    Ids(usize),
    /// This execution; those after it are still to be looked at.
    After(ExecutionId),
    /// The end.
    End,
}

/// Notes what became of one part.
#[derive(Clone, Debug, PartialEq)]
pub struct AdvanceBulk {
    pub bulk: Box<str>,
    /// Who carries it out.
    pub server: Box<str>,
    /// One more than are done.
    pub part: u64,
    pub reached: Reached,
    pub counts: BulkCounts,
    /// How many commands were sent, which is what a rate is about.
    pub sent: u64,
}

impl AdvanceBulk {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let known = require(ws, &self.bulk)?;
        let is_mine = known.server.as_ref() == Some(&self.server);
        if is_mine && known.parts == self.part {
            // Sent again because its answer was lost.
            return Ok(Reply::Bulk { bulk: Arc::new(known), existing: true });
        }
        if !is_mine || known.parts + 1 != self.part || known.state == BulkState::Finished {
            return Err(Rejection::BulkSuperseded { bulk: self.bulk.clone() }.into());
        }
        let mut bulk = self.moved(known, now);
        if bulk.is_running() && self.is_end(&bulk) {
            bulk.state = BulkState::Finished;
            bulk.ended_at = Some(now);
            bulk.next_at = None;
            let BulkCounts { seen, done, failed, .. } = bulk.counts;
            ws.emit_global(None, now, Fact::BulkFinished { bulk: bulk.id.clone(), seen, done, failed });
            ws.put_record(Record::Bulk(bulk.clone()));
            forget_old(ws)?;
        } else {
            ws.put_record(Record::Bulk(bulk.clone()));
        }
        Ok(Reply::Bulk { bulk: Arc::new(bulk), existing: false })
    }

    fn moved(&self, mut bulk: BulkOperation, now: Ms) -> BulkOperation {
        bulk.parts = self.part;
        bulk.counts.add(&self.counts);
        match (&mut bulk.selection, self.reached) {
            (Selection::Ids(left), Reached::Ids(count)) => drop(left.drain(..count.min(left.len()))),
            (Selection::Ids(left), Reached::End) => left.clear(),
            (Selection::Filter { after, .. }, Reached::After(id)) => *after = Some(id),
            (Selection::Ids(_), Reached::After(_)) | (Selection::Filter { .. }, _) => {}
        }
        // As long as what was sent would have taken at the rate that is asked for.
        let pause =
            |rate: u32| Ms::try_from(self.sent.saturating_mul(1_000).div_ceil(u64::from(rate).max(1)));
        let pause = bulk.rate.filter(|_| self.sent > 0).map(|rate| pause(rate).unwrap_or(Ms::MAX));
        bulk.next_at = pause.map(|ms| now.saturating_add(ms));
        bulk
    }

    fn is_end(&self, bulk: &BulkOperation) -> bool {
        match (&bulk.selection, self.reached) {
            (_, Reached::End) => true,
            (Selection::Ids(left), _) => left.is_empty(),
            (Selection::Filter { up_to, after, .. }, _) => after.is_some_and(|after| after >= *up_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StartBulk;
    use super::super::testing::*;
    use super::*;

    fn bench() -> Bench {
        let mut bench = Bench::new();
        bench.ok(StartBulk { server: Some("server".into()), ..start_bulk("a") });
        bench
    }

    fn advanced(bench: &mut Bench, command: AdvanceBulk) -> BulkOperation {
        let Reply::Bulk { bulk, .. } = bench.ok(command) else { panic!() };
        (*bulk).clone()
    }

    fn id(n: u128) -> ExecutionId {
        ExecutionId(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn parts_add_up_until_the_end_which_is_an_event() {
        let mut bench = bench();
        let events = bench.store.events.len();
        let first = advanced(&mut bench, advance_bulk(1, Reached::After(id(5))));
        assert_eq!((first.parts, first.counts.seen, first.counts.done), (1, 3, 2));
        assert!(matches!(first.selection, Selection::Filter { after: Some(after), .. } if after == id(5)));
        assert_eq!(advanced(&mut bench, advance_bulk(1, Reached::After(id(5)))), first, "sent again");
        assert_eq!(bench.store.events.len(), events, "it is no event");
        let last = advanced(&mut bench, advance_bulk(2, Reached::End));
        assert_eq!((last.state, last.ended_at), (BulkState::Finished, Some(bench.now)));
        assert_eq!((last.counts.seen, last.counts.skipped.get("terminal")), (6, Some(&2)));
        let told = serde_json::to_value(bench.store.events.last().unwrap()).unwrap();
        assert_eq!((&told["event"], &told["done"]), (&"bulk_finished".into(), &4.into()));
        assert_eq!(
            bench.run(advance_bulk(3, Reached::End)).unwrap_err().code(),
            "bulk_superseded",
            "it has ended"
        );
    }

    #[test]
    fn the_last_there_was_at_the_start_is_the_end() {
        let mut bench = bench();
        let bulk = advanced(&mut bench, advance_bulk(1, Reached::After(ExecutionId(uuid::Uuid::max()))));
        assert_eq!(bulk.state, BulkState::Finished);
    }

    #[test]
    fn ids_leave_the_list_as_they_are_passed() {
        let mut bench = Bench::new();
        let selection = Selection::Ids(vec![id(1), id(2), id(3)]);
        bench.ok(StartBulk { server: Some("server".into()), selection, ..start_bulk("a") });
        let bulk = advanced(&mut bench, advance_bulk(1, Reached::Ids(2)));
        assert_eq!(bulk.selection, Selection::Ids(vec![id(3)]));
        let bulk = advanced(&mut bench, advance_bulk(2, Reached::Ids(1)));
        assert_eq!(bulk.state, BulkState::Finished);
    }

    #[test]
    fn whoever_does_not_carry_it_out_any_more_is_told_so() {
        let mut bench = bench();
        bench.ok(take_bulk(Some("server"), Some("other")));
        let late = bench.run(advance_bulk(1, Reached::After(id(1))));
        assert_eq!(late.unwrap_err().code(), "bulk_superseded");
        bench.ok(take_bulk(Some("other"), Some("server")));
        let early = bench.run(advance_bulk(2, Reached::After(id(1))));
        assert_eq!(early.unwrap_err().code(), "bulk_superseded");
    }

    #[test]
    fn a_rate_puts_the_next_part_off_for_what_was_sent() {
        for (rate, sent, wait) in [
            (10, 10, Some(1_000)),
            (10, 3, Some(300)),
            (3, 1, Some(334)),
            (10, 0, None),
            (u32::MAX, 1, Some(1)),
        ] {
            let mut bench = Bench::new();
            let rate = Some(rate.min(1_000_000));
            bench.ok(StartBulk { server: Some("server".into()), rate, ..start_bulk("a") });
            let part = AdvanceBulk { sent, ..advance_bulk(1, Reached::After(id(1))) };
            let bulk = advanced(&mut bench, part);
            assert_eq!(bulk.next_at, wait.map(|ms: Ms| bench.now + ms), "{rate:?} {sent}");
        }
    }

    #[test]
    fn a_part_that_was_under_way_when_it_was_stopped_still_counts() {
        let mut bench = bench();
        bench.ok(stop_bulk("a"));
        let bulk = advanced(&mut bench, advance_bulk(1, Reached::End));
        assert_eq!((bulk.state, bulk.counts.done), (BulkState::Stopped, 2));
    }
}
