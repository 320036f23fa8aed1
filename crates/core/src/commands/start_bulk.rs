//! Start a bulk operation. Nothing is done to executions here: a server does that, part by part.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Decision, check_by, check_text};
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::ExecutionId;
use crate::limits::Limits;
use crate::name::Namespace;
use crate::policy::range;
use crate::registry::{
    Action, BulkCounts, BulkOperation, BulkState, ENDED_KEPT, Record, RecordKey, RecordKind, Selection,
    check_id,
};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::suspension::token::hex;
use crate::workspace::{Stop, Workspace};

const RATE_MAX: i64 = 1_000_000;
const FILTER_BYTES_MAX: usize = 1 << 10;

/// Says what is to be done, and to which executions. The same again is the same operation.
#[derive(Clone, Debug, PartialEq)]
pub struct StartBulk {
    pub id: Box<str>,
    pub action: Action,
    pub selection: Selection,
    pub rate: Option<u32>,
    pub namespaces: Vec<Namespace>,
    /// How many executions it will look at, if that is known.
    pub expected: Option<u64>,
    /// Who carries it out at first.
    pub server: Option<Box<str>>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl StartBulk {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        check_id(&self.id)?;
        if let Some(rate) = self.rate {
            range("rate", rate.into(), 1, RATE_MAX)?;
        }
        match self.action {
            Action::Cancel { grace_ms: Some(ms) } => range("grace", ms, 0, limits.horizon_ms_max)?,
            Action::Priority { priority } => range("priority", priority.into(), -100, 100)?,
            Action::Cancel { grace_ms: None } | Action::Replay => {}
        }
        match &self.selection {
            Selection::Ids(ids) => {
                let max = limits.batch_items_max;
                if ids.is_empty() || ids.len() > max {
                    let problem = format!("are {} in number; allowed are 1 to {max}", ids.len());
                    return Err(Invalid::new("ids", problem).into());
                }
            }
            Selection::Filter { filter, .. } => {
                for text in filter.error_code.iter().chain(&filter.error_text) {
                    check_text("filter", text, FILTER_BYTES_MAX)?;
                }
                if filter.tags.len() > limits.tags_max {
                    let (count, max) = (filter.tags.len(), limits.tags_max);
                    let problem = format!("has {count} tags; allowed are at most {max}");
                    return Err(Invalid::new("filter", problem).into());
                }
            }
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        if let Some(Record::Bulk(known)) = ws.record(&RecordKey::bulk(&self.id))?.map(|it| &**it) {
            if known.asked != self.asked() {
                return Err(Rejection::IdUsed { what: "bulk operation".into(), id: self.id.clone() }.into());
            }
            return Ok(Reply::Bulk { bulk: Arc::new(known.clone()), existing: true });
        }
        let max = ws.limits.bulk_running_max;
        let running = |it: &&Arc<Record>| BulkOperation::of(it).is_some_and(BulkOperation::is_running);
        if ws.records(RecordKind::Bulk)?.filter(running).count() >= max {
            return Err(Rejection::RegistryFull { what: "bulk operations that run".into(), max }.into());
        }
        let bulk = self.operation(now);
        let by = bulk.started_by.clone();
        let fact = Fact::BulkStarted { by, bulk: self.id.clone(), verb: self.action.verb() };
        ws.emit_global(None, now, fact);
        ws.put_record(Record::Bulk(bulk.clone()));
        forget_old(ws)?;
        Ok(Reply::Bulk { bulk: Arc::new(bulk), existing: false })
    }

    /// The operation as it begins.
    pub fn operation(&self, now: Ms) -> BulkOperation {
        BulkOperation {
            id: self.id.clone(),
            action: self.action,
            selection: bounded(&self.selection, now),
            rate: self.rate,
            namespaces: self.namespaces.clone(),
            asked: self.asked(),
            expected: self.expected,
            started_at: now,
            started_by: By::new(&self.actor, &self.cause),
            state: BulkState::Running,
            ended_at: None,
            stopped_by: None,
            server: self.server.clone(),
            parts: 0,
            next_at: None,
            counts: BulkCounts::default(),
        }
    }

    /// A digest of what is asked for, without what depends on when it is.
    fn asked(&self) -> Box<str> {
        let mut hash = Sha256::new();
        let mut take = |part: Result<Vec<u8>, serde_json::Error>| {
            hash.update(part.unwrap_or_default());
            hash.update([0]);
        };
        take(serde_json::to_vec(&self.action));
        take(serde_json::to_vec(&self.rate));
        take(serde_json::to_vec(&self.namespaces));
        match &self.selection {
            Selection::Ids(ids) => take(serde_json::to_vec(ids)),
            Selection::Filter { filter, .. } => take(serde_json::to_vec(filter)),
        }
        hex(&hash.finalize()).into()
    }
}

/// Each id once, and nothing that is created after the start.
fn bounded(selection: &Selection, now: Ms) -> Selection {
    match selection {
        Selection::Ids(ids) => {
            let mut known = std::collections::BTreeSet::<ExecutionId>::new();
            Selection::Ids(ids.iter().copied().filter(|id| known.insert(*id)).collect())
        }
        Selection::Filter { filter, up_to, after } => {
            let mut filter = filter.clone();
            let end = now.saturating_add(1);
            filter.created_before = Some(filter.created_before.map_or(end, |before| before.min(end)));
            Selection::Filter { filter, up_to: *up_to, after: *after }
        }
    }
}

/// Drops the oldest of those that have ended, if there are too many.
pub(super) fn forget_old(ws: &mut Workspace) -> Result<(), Stop> {
    let ended = ws.records(RecordKind::Bulk)?.filter_map(|it| {
        let bulk = BulkOperation::of(it).filter(|bulk| !bulk.is_running())?;
        Some((bulk.ended_at, bulk.id.clone()))
    });
    let mut ended: Vec<(Option<Ms>, Box<str>)> = ended.collect();
    ended.sort_unstable();
    let old = ended.len().saturating_sub(ENDED_KEPT);
    for (_, id) in ended.into_iter().take(old) {
        ws.drop_record(RecordKey::bulk(&id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::query::Filter;

    fn started(bench: &mut Bench, command: StartBulk) -> (BulkOperation, bool) {
        let Reply::Bulk { bulk, existing } = bench.ok(command) else { panic!() };
        ((*bulk).clone(), existing)
    }

    #[test]
    fn an_operation_begins_once_and_is_an_event() {
        let mut bench = Bench::new();
        let (first, existing) = started(&mut bench, start_bulk("a"));
        assert_eq!((first.state, first.started_at, existing), (BulkState::Running, bench.now, false));
        let told = serde_json::to_value(bench.store.events.last().unwrap()).unwrap();
        assert_eq!((&told["event"], &told["verb"]), (&"bulk_started".into(), &"cancel".into()), "{told}");
        bench.pass(5);
        let events = bench.store.events.len();
        assert_eq!(started(&mut bench, start_bulk("a")), (first, true));
        let other = StartBulk { rate: Some(1), ..start_bulk("a") };
        assert_eq!(bench.run(other).unwrap_err().code(), "id_used");
        assert_eq!(bench.store.events.len(), events);
    }

    #[test]
    fn what_is_created_later_is_not_selected() {
        let mut bench = Bench::new();
        for (before, want) in [(None, bench.now + 1), (Some(7), 7), (Some(bench.now + 99), bench.now + 1)] {
            let filter = Box::new(Filter { created_before: before, ..Filter::default() });
            let up_to = ExecutionId(uuid::Uuid::max());
            let selection = Selection::Filter { filter, up_to, after: None };
            let name = format!("b{before:?}").replace(['S', 'N', '(', ')'], "");
            let (bulk, _) = started(&mut bench, StartBulk { selection, ..start_bulk(&name) });
            let Selection::Filter { filter, .. } = bulk.selection else { panic!() };
            assert_eq!(filter.created_before, Some(want));
        }
    }

    #[test]
    fn an_id_is_selected_once() {
        let mut bench = Bench::new();
        let (a, b) = (bench.next_id(), bench.next_id());
        let selection = Selection::Ids(vec![b, a, b]);
        let (bulk, _) = started(&mut bench, StartBulk { selection, ..start_bulk("a") });
        assert_eq!(bulk.selection, Selection::Ids(vec![b, a]));
    }

    #[test]
    fn only_so_many_run_and_only_so_many_are_remembered() {
        let limits = Limits { bulk_running_max: 2, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        bench.ok(start_bulk("x"));
        bench.ok(start_bulk("y"));
        assert_eq!(bench.run(start_bulk("z")).unwrap_err().code(), "registry_full");
        bench.ok(stop_bulk("y"));
        for n in 0..ENDED_KEPT + 3 {
            bench.jump(1);
            bench.ok(start_bulk(&format!("n{n}")));
            bench.ok(stop_bulk(&format!("n{n}")));
        }
        let kept: Vec<&str> = bench.store.registry.keys().map(|key| &*key.id).collect();
        assert_eq!(kept.len(), ENDED_KEPT + 1, "and the one that runs");
        assert!(kept.contains(&"x") && !kept.contains(&"y") && !kept.contains(&"n2"));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let limits = Limits { batch_items_max: 1, ..Limits::default() };
        let id = Bench::new().next_id();
        let filter = |filter: Filter| Selection::Filter { filter: Box::new(filter), up_to: id, after: None };
        let tags = vec![(String::new(), String::new()); 65];
        for (field, command) in [
            ("id", start_bulk("A")),
            ("rate", StartBulk { rate: Some(0), ..start_bulk("a") }),
            ("rate", StartBulk { rate: Some(1_000_001), ..start_bulk("a") }),
            ("priority", StartBulk { action: Action::Priority { priority: 101 }, ..start_bulk("a") }),
            ("grace", StartBulk { action: Action::Cancel { grace_ms: Some(-1) }, ..start_bulk("a") }),
            ("ids", StartBulk { selection: Selection::Ids(vec![]), ..start_bulk("a") }),
            ("ids", StartBulk { selection: Selection::Ids(vec![id, id]), ..start_bulk("a") }),
            (
                "filter",
                StartBulk { selection: filter(Filter { tags, ..Filter::default() }), ..start_bulk("a") },
            ),
            ("actor", StartBulk { actor: "\0".into(), ..start_bulk("a") }),
        ] {
            let refused = command.validate(&limits).unwrap_err();
            assert!(matches!(&refused, Rejection::Invalid(it) if it.field == field), "{field}: {refused}");
        }
    }
}
