//! Stop a bulk operation: the part that is under way is its last. What was done stays done.

use std::sync::Arc;

use super::Decision;
use super::start_bulk::forget_old;
use super::take_bulk::require;
use crate::Ms;
use crate::event::{By, Fact};
use crate::registry::{BulkState, Record};
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Stopping one that has ended changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct StopBulk {
    pub id: Box<str>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl StopBulk {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut bulk = require(ws, &self.id)?;
        if !bulk.is_running() {
            return Ok(Reply::Bulk { bulk: Arc::new(bulk), existing: true });
        }
        let by = By::new(&self.actor, &self.cause);
        bulk.state = BulkState::Stopped;
        bulk.ended_at = Some(now);
        bulk.next_at = None;
        bulk.stopped_by = Some(by.clone());
        ws.emit_global(None, now, Fact::BulkStopped { by, bulk: self.id.clone() });
        ws.put_record(Record::Bulk(bulk.clone()));
        forget_old(ws)?;
        Ok(Reply::Bulk { bulk: Arc::new(bulk), existing: false })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_first_stop_stands_and_is_an_event() {
        let mut bench = Bench::new();
        bench.ok(start_bulk("a"));
        let Reply::Bulk { bulk, existing } = bench.ok(stop_bulk("a")) else { panic!() };
        assert_eq!((bulk.state, bulk.ended_at, existing), (BulkState::Stopped, Some(bench.now), false));
        assert_eq!(bench.store.events.last().unwrap().fact.word(), "bulk_stopped");
        let events = bench.store.events.len();
        bench.pass(5);
        let again = StopBulk { actor: "another".into(), ..stop_bulk("a") };
        assert_eq!(bench.ok(again), Reply::Bulk { bulk, existing: true });
        assert_eq!(bench.store.events.len(), events);
        assert_eq!(bench.run(stop_bulk("b")).unwrap_err().to_string(), "there is no bulk operation b");
    }
}
