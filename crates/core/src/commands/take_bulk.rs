//! Take over a bulk operation from a server that is gone, or from nobody. One server at a time carries it out; which it
//! is, is stored, so that all agree.

use std::sync::Arc;

use super::{Decision, check_text};
use crate::Ms;
use crate::registry::{BulkOperation, Record, RecordKey};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

const SERVER_BYTES_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub struct TakeBulk {
    pub bulk: Box<str>,
    /// Who carried it out so far.
    pub before: Option<Box<str>>,
    /// Who does from now on; nobody if a server lets go.
    pub server: Option<Box<str>>,
}

impl TakeBulk {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        for server in self.before.iter().chain(&self.server) {
            check_text("server", server, SERVER_BYTES_MAX)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, _now: Ms) -> Decision {
        let known = require(ws, &self.bulk)?;
        if known.server == self.server || !known.is_running() {
            return Ok(Reply::Bulk { bulk: Arc::new(known), existing: true });
        }
        if known.server != self.before {
            return Err(Rejection::BulkSuperseded { bulk: self.bulk.clone() }.into());
        }
        let bulk = BulkOperation { server: self.server.clone(), ..known };
        ws.put_record(Record::Bulk(bulk.clone()));
        Ok(Reply::Bulk { bulk: Arc::new(bulk), existing: false })
    }
}

/// The operation of this id.
pub(super) fn require(ws: &Workspace, id: &str) -> Result<BulkOperation, Stop> {
    match ws.record(&RecordKey::bulk(id))?.map(|it| &**it) {
        Some(Record::Bulk(bulk)) => Ok(bulk.clone()),
        _ => Err(Rejection::NotFound { what: "bulk operation".into(), id: id.to_owned() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn of_two_servers_one_takes_over() {
        let mut bench = Bench::new();
        bench.ok(start_bulk("a"));
        let events = bench.store.events.len();
        let server = |reply: Reply| match reply {
            Reply::Bulk { bulk, .. } => bulk.server.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(server(bench.ok(take_bulk(None, Some("one")))).as_deref(), Some("one"));
        assert_eq!(server(bench.ok(take_bulk(None, Some("one")))).as_deref(), Some("one"));
        assert_eq!(bench.run(take_bulk(None, Some("two"))).unwrap_err().code(), "bulk_superseded");
        bench.ok(take_bulk(Some("one"), Some("two")));
        assert_eq!(bench.run(take_bulk(Some("one"), None)).unwrap_err().code(), "bulk_superseded");
        assert_eq!(server(bench.ok(take_bulk(Some("two"), None))), None);
        assert_eq!(bench.store.events.len(), events, "it is no event");
        bench.ok(stop_bulk("a"));
        assert_eq!(server(bench.ok(take_bulk(None, Some("one")))), None, "there is nothing left to do");
        assert_eq!(
            bench.run(TakeBulk { bulk: "b".into(), ..take_bulk(None, None) }).unwrap_err().code(),
            "not_found"
        );
    }
}
