//! Bulk operations: the same done to many executions, in parts, by one server at a time.
//!
//! A part reads a few executions, does to each what is asked, and moves the operation on. A server that dies between
//! the two leaves executions that the next one meets again; what had been done to them is not done twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Record;
use crate::Ms;
use crate::commands::{Cancel, Command, Replay, SetPriority};
use crate::event::By;
use crate::execution::{End, Execution};
use crate::id::ExecutionId;
use crate::name::Namespace;
use crate::query::{Filter, Order, PageAsk};
use crate::rejection::Rejection;
use crate::state::{PublicState, words};

/// How many executions one part looks at.
pub const PART_MAX: usize = 500;
/// How many records are read to find them.
pub const PART_SCAN_MAX: usize = 10_000;
/// How many operations that have ended are remembered.
pub const ENDED_KEPT: usize = 100;
/// How many of the executions that something kept it from are told one by one.
pub const PROBLEMS_KEPT: usize = 10;
const DETAIL_CHARS_MAX: usize = 300;

words!(
    /// What is done to each execution.
    BulkVerb {
        Cancel = "cancel",
        Replay = "replay",
        Priority = "priority",
    }
);

words!(
    /// Where a bulk operation stands.
    BulkState {
        Running = "running",
        Finished = "finished",
        Stopped = "stopped",
    }
);

/// What is done to each execution, with what that needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Action {
    Cancel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<Ms>,
    },
    Replay,
    Priority {
        priority: i8,
    },
}

impl Action {
    pub fn verb(self) -> BulkVerb {
        match self {
            Action::Cancel { .. } => BulkVerb::Cancel,
            Action::Replay => BulkVerb::Replay,
            Action::Priority { .. } => BulkVerb::Priority,
        }
    }
}

/// To which executions it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// These; those that were looked at have left the list.
    Ids(Vec<ExecutionId>),
    /// Those that match when they are looked at, in the order of their ids. What was created after the start is not
    /// among them, so that an operation ends also if it makes what it looks for.
    Filter {
        filter: Box<Filter>,
        /// The newest there was at the start.
        up_to: ExecutionId,
        /// The last that was looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ExecutionId>,
    },
}

/// An execution to which it was not done, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkProblem {
    pub execution: ExecutionId,
    /// The word under which the reason is explained.
    pub code: Box<str>,
    pub detail: Box<str>,
}

/// How far an operation has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCounts {
    /// Executions that were looked at.
    pub seen: u64,
    /// Those to which it was done.
    pub done: u64,
    /// Those to which it was not, by the code of the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<Box<str>, u64>,
    /// Those where something went wrong inside.
    pub failed: u64,
    /// Some of those that were skipped or failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<BulkProblem>,
}

impl BulkCounts {
    pub fn skip(&mut self, execution: ExecutionId, code: &str, detail: String) {
        *self.skipped.entry(code.into()).or_default() += 1;
        self.tell(execution, code, detail);
    }

    pub fn fail(&mut self, execution: ExecutionId, code: &str, detail: String) {
        self.failed += 1;
        self.tell(execution, code, detail);
    }

    fn tell(&mut self, execution: ExecutionId, code: &str, detail: String) {
        if self.problems.len() < PROBLEMS_KEPT {
            let detail: String = detail.chars().take(DETAIL_CHARS_MAX).collect();
            self.problems.push(BulkProblem { execution, code: code.into(), detail: detail.into() });
        }
    }

    pub fn add(&mut self, other: &BulkCounts) {
        self.seen += other.seen;
        self.done += other.done;
        self.failed += other.failed;
        for (code, count) in &other.skipped {
            *self.skipped.entry(code.clone()).or_default() += count;
        }
        let room = PROBLEMS_KEPT.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.iter().take(room).cloned());
    }
}

/// Why nothing is asked of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub code: &'static str,
    pub detail: String,
}

impl From<Rejection> for Skip {
    fn from(rejection: Rejection) -> Skip {
        Skip { code: rejection.code(), detail: rejection.to_string() }
    }
}

/// A bulk operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkOperation {
    pub id: Box<str>,
    pub action: Action,
    pub selection: Selection,
    /// To how many executions it is done in a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Those it reaches; all of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
    /// What was asked for, to know it again.
    pub asked: Box<str>,
    /// How many executions it was to look at when it was started, as far as that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    pub started_at: Ms,
    pub started_by: By,
    pub state: BulkState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<By>,
    /// Which server carries it out; the others leave it alone while that one is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<str>>,
    /// How many parts are done.
    pub parts: u64,
    /// Before when no other part begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Ms>,
    pub counts: BulkCounts,
}

impl BulkOperation {
    pub fn of(record: &Record) -> Option<&BulkOperation> {
        match record {
            Record::Bulk(bulk) => Some(bulk),
            _ => None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.state == BulkState::Running
    }

    /// How many executions the next part looks at: no more than may be changed in a second.
    pub fn part_max(&self) -> usize {
        self.rate.map_or(PART_MAX, |rate| (rate as usize).clamp(1, PART_MAX))
    }

    /// The executions that the next part looks at, if they are known by their ids.
    pub fn next_ids(&self) -> Option<&[ExecutionId]> {
        match &self.selection {
            Selection::Ids(left) => Some(&left[..left.len().min(self.part_max())]),
            Selection::Filter { .. } => None,
        }
    }

    /// How the next part finds its executions, if they are not known by their ids.
    pub fn next_page(&self) -> Option<PageAsk> {
        match &self.selection {
            Selection::Ids(_) => None,
            Selection::Filter { filter, after, .. } => Some(PageAsk {
                filter: (**filter).clone(),
                order: Order::OldestFirst,
                after: *after,
                limit: self.part_max(),
                scan_max: PART_SCAN_MAX,
            }),
        }
    }

    /// Whether it is about an execution that a page has brought.
    pub fn holds(&self, id: ExecutionId) -> bool {
        match &self.selection {
            Selection::Ids(_) => true,
            Selection::Filter { up_to, .. } => id <= *up_to,
        }
    }

    /// Whether it reaches a namespace.
    pub fn covers(&self, namespace: &Namespace) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// What is asked of an execution.
    ///
    /// # Errors
    /// Why nothing is: it is so already, it is not possible, or it is not there for whoever has started this.
    pub fn command(&self, execution: &Execution) -> Result<Command, Skip> {
        if !self.covers(&execution.spec.namespace) {
            return Err(self.missing(execution.id));
        }
        let (id, actor, cause) = (execution.id, Box::from(&*self.started_by.actor), self.cause());
        let already = |detail: String| Err(Skip { code: "already", detail });
        let is_cancelled = |end: &&End| end.state == PublicState::Cancelled;
        match (self.action, execution.end()) {
            (Action::Cancel { .. }, Some(end)) if is_cancelled(&end) => already("it is cancelled".to_owned()),
            (Action::Cancel { .. } | Action::Priority { .. }, Some(End { state, reason, .. })) => {
                Err(Rejection::Terminal { execution: id, state: *state, reason: *reason }.into())
            }
            (Action::Cancel { grace_ms }, None) => {
                Ok(Cancel { execution: id, actor, cause, grace_ms }.into())
            }
            (Action::Replay, None) => {
                let (state, verb) = (execution.public_state(), "replayed".into());
                Err(Rejection::NotTerminal { execution: id, state, verb }.into())
            }
            (Action::Replay, Some(end)) if end.at > self.started_at => {
                Err(Rejection::EndedSince { execution: id, at: end.at }.into())
            }
            (Action::Replay, Some(_)) => {
                Ok(Replay { execution: id, actor, cause, ended_by: Some(self.started_at) }.into())
            }
            (Action::Priority { priority }, None) if execution.live.priority == priority => {
                already(format!("it has the priority {priority}"))
            }
            (Action::Priority { priority }, None) => {
                Ok(SetPriority { execution: id, priority, actor, cause }.into())
            }
        }
    }

    /// What is said of an execution that is not there, or not for whoever has started this.
    pub fn missing(&self, id: ExecutionId) -> Skip {
        Skip { code: "not_found", detail: format!("there is no execution {id}") }
    }

    /// Whoever finds it at an execution and was told no other reason learns of the operation.
    fn cause(&self) -> Box<str> {
        match &*self.started_by.cause {
            "" => format!("bulk operation {}", self.id).into(),
            cause => cause.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::commands::testing::*;

    pub(crate) fn sample() -> BulkOperation {
        BulkOperation {
            id: "bulk_1".into(),
            action: Action::Cancel { grace_ms: None },
            selection: Selection::Filter {
                filter: Box::default(),
                up_to: ExecutionId(uuid::Uuid::max()),
                after: None,
            },
            rate: None,
            namespaces: Vec::new(),
            asked: "00".into(),
            expected: Some(3),
            started_at: 1,
            started_by: By::new("ada", ""),
            state: BulkState::Running,
            ended_at: None,
            stopped_by: None,
            server: None,
            parts: 0,
            next_at: None,
            counts: BulkCounts::default(),
        }
    }

    #[test]
    fn a_rate_makes_parts_small() {
        for (rate, max) in [(None, PART_MAX), (Some(1), 1), (Some(40), 40), (Some(u32::MAX), PART_MAX)] {
            assert_eq!(BulkOperation { rate, ..sample() }.part_max(), max, "{rate:?}");
        }
    }

    #[test]
    fn what_is_so_already_or_not_possible_is_not_asked_for() {
        let mut bench = Bench::new();
        let (waits, gone) = (bench.create(), bench.create());
        bench.ok(cancel(gone, None));
        let code = |action, id| {
            let bulk = BulkOperation { action, ..sample() };
            bulk.command(bench.get(id)).map_or_else(|skip| skip.code, |command| command.name())
        };
        let cancel = Action::Cancel { grace_ms: None };
        assert_eq!((code(cancel, waits), code(cancel, gone)), ("Cancel", "already"));
        assert_eq!(
            (code(Action::Replay, waits), code(Action::Replay, gone)),
            ("not_terminal", "ended_since")
        );
        let later = BulkOperation { action: Action::Replay, started_at: bench.now, ..sample() };
        assert!(matches!(later.command(bench.get(gone)), Ok(Command::Replay(_))));
        let priority = |priority| Action::Priority { priority };
        assert_eq!((code(priority(0), waits), code(priority(1), waits)), ("already", "SetPriority"));
        assert_eq!(code(priority(1), gone), "terminal");
    }

    #[test]
    fn what_is_not_for_whoever_started_it_is_not_there() {
        let mut bench = Bench::new();
        let id = bench.create();
        let namespaces = vec![Namespace::parse("theirs").unwrap()];
        let bulk = BulkOperation { namespaces, ..sample() };
        assert_eq!(bulk.command(bench.get(id)), Err(bulk.missing(id)));
    }

    #[test]
    fn without_a_reason_of_its_own_it_names_itself() {
        let mut bench = Bench::new();
        let id = bench.create();
        let cause = |bulk: BulkOperation| match bulk.command(bench.get(id)) {
            Ok(Command::Cancel(it)) => it.cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(&*cause(sample()), "bulk operation bulk_1");
        assert_eq!(&*cause(BulkOperation { started_by: By::new("ada", "why"), ..sample() }), "why");
    }

    #[test]
    fn counts_add_up_and_only_some_problems_are_told() {
        let id = ExecutionId(uuid::Uuid::nil());
        let mut part = BulkCounts { seen: 9, done: 2, ..BulkCounts::default() };
        (0..6).for_each(|_| part.skip(id, "terminal", "it has ended".to_owned()));
        part.fail(id, "internal", "broken".to_owned());
        let mut sum = BulkCounts::default();
        sum.add(&part);
        sum.add(&part);
        assert_eq!((sum.seen, sum.done, sum.failed), (18, 4, 2));
        assert_eq!(sum.skipped.get("terminal"), Some(&12));
        assert_eq!(sum.problems.len(), PROBLEMS_KEPT);
    }
}
