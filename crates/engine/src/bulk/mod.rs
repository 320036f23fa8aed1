//! Bulk operations: begun, previewed, watched, stopped, and carried out.
//!
//! | to read about | open |
//! |---|---|
//! | what callers ask for | this file |
//! | one part of an operation | [`part`] |
//! | which server carries out what, and when | [`runner`] |

mod part;
mod runner;

use std::sync::Arc;

use ff_core::commands::{StartBulk, StopBulk};
use ff_core::event::{Fact, Family};
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::registry::{Action, BulkOperation, PART_MAX, PART_SCAN_MAX, RecordKind, Selection};
use ff_core::{Command, Execution, ExecutionId, Ms, Namespace, Rejection, Reply};

pub(crate) use runner::Desk;
pub use runner::{BulkRunner, Whose};

use crate::engine::{COUNT_MAX, COUNTED_PAGES, Engine};
use crate::failure::Failure;
use crate::registry::unexpected;
use crate::subscription::{EventFilter, Item, Start};

/// How many executions a preview names.
pub const PREVIEWED: usize = 10;

/// Which executions an operation is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
    Ids(Vec<ExecutionId>),
    Filter(Box<Filter>),
}

/// What is to be done to many executions.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBulk {
    /// Under which the same is known again; one is made if it is absent.
    pub id: Option<Box<str>>,
    pub action: Action,
    pub which: Which,
    /// To how many it is done in a second at most.
    pub rate: Option<u32>,
    /// Those it reaches; all of them if empty.
    pub namespaces: Vec<Namespace>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

/// What an operation would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// How many executions it would look at.
    pub seen: u64,
    /// To how many it would be done.
    pub done: u64,
    /// There are more; counting has stopped.
    pub more: bool,
    /// The first of those to which it would be done.
    pub first: Vec<ExecutionId>,
}

impl Engine {
    /// Begins an operation, which this process then carries out. The same id again is the same operation.
    pub async fn start_bulk(&self, new: NewBulk) -> Result<Arc<BulkOperation>, Failure> {
        let expected = match &new.which {
            Which::Ids(ids) => Some(ids.len() as u64),
            Which::Filter(filter) => {
                let (count, more) = self.count(filter).await?;
                Some(count).filter(|_| !more)
            }
        };
        let command = StartBulk { expected, ..self.start_command(new).await? };
        let bulk = bulk(self.execute(command).await?)?;
        self.carry_out_bulks();
        Ok(bulk)
    }

    /// What an operation would do if it were begun now. Up to ten thousand executions are counted, among as many records
    /// as [`count`](Engine::count) looks at.
    pub async fn preview_bulk(&self, new: NewBulk) -> Result<Preview, Failure> {
        self.preview_among(new, COUNTED_PAGES * COUNT_MAX).await
    }

    /// The same, among so many records.
    async fn preview_among(&self, new: NewBulk, looks_max: usize) -> Result<Preview, Failure> {
        let command = self.start_command(new).await?;
        Command::from(command.clone()).validate(self.limits())?;
        let mut operation = command.operation(self.now().await?);
        // Nothing is done, so that no rate keeps it.
        operation.rate = None;
        let (mut preview, mut looked) = (Preview::default(), 0);
        loop {
            let found = self.next_of_bulk(&operation).await?;
            // A part that is not full has looked at as much as it may.
            looked += if found.items.len() < PART_MAX { PART_SCAN_MAX } else { found.items.len() };
            for (id, execution) in &found.items {
                preview.seen += 1;
                if execution.as_deref().is_some_and(|it| operation.command(it).is_ok()) {
                    preview.done += 1;
                    if preview.first.len() < PREVIEWED {
                        preview.first.push(*id);
                    }
                }
            }
            if !found.go_on(&mut operation.selection) {
                return Ok(preview);
            }
            if preview.seen >= COUNT_MAX as u64 || looked >= looks_max {
                preview.more = true;
                return Ok(preview);
            }
        }
    }

    async fn start_command(&self, new: NewBulk) -> Result<StartBulk, Failure> {
        let selection = match new.which {
            Which::Ids(ids) => Selection::Ids(ids),
            Which::Filter(filter) => {
                let up_to = self.newest().await?;
                Selection::Filter { filter, up_to, after: None }
            }
        };
        Ok(StartBulk {
            id: new.id.unwrap_or_else(|| self.new_bulk_id()),
            action: new.action,
            selection,
            rate: new.rate,
            namespaces: new.namespaces,
            expected: None,
            server: Some(self.server().into()),
            actor: new.actor,
            cause: new.cause,
        })
    }

    /// An id for an operation that nobody has drawn.
    pub fn new_bulk_id(&self) -> Box<str> {
        format!("bulk_{:016x}", self.random()).into()
    }

    /// The newest execution there is; whatever comes later has a later id, or says that it was created later.
    async fn newest(&self) -> Result<ExecutionId, Failure> {
        let ask = PageAsk {
            filter: Filter::default(),
            order: Order::NewestFirst,
            after: None,
            limit: 1,
            scan_max: PART_SCAN_MAX,
        };
        let page = self.list(ask).await?;
        Ok(page.executions.first().map_or(ExecutionId(uuid::Uuid::nil()), |it: &Execution| it.id))
    }

    /// All operations that are remembered, newest first.
    pub async fn bulks(&self) -> Result<Vec<Arc<BulkOperation>>, Failure> {
        let mut bulks = self.read_bulks(None).await?.0;
        bulks.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
        Ok(bulks)
    }

    pub async fn bulk(&self, id: &str) -> Result<Option<Arc<BulkOperation>>, Failure> {
        Ok(self.read_bulks(Some(id)).await?.0.pop())
    }

    /// Stops an operation; the part that is under way is its last.
    pub async fn stop_bulk(&self, id: &str, actor: &str, cause: &str) -> Result<Arc<BulkOperation>, Failure> {
        let (id, actor, cause) = (id.into(), actor.into(), cause.into());
        bulk(self.execute(StopBulk { id, actor, cause }).await?)
    }

    /// Waits until an operation has ended, whichever server carries it out.
    pub async fn wait_bulk(&self, id: &str) -> Result<Arc<BulkOperation>, Failure> {
        let filter = EventFilter { families: vec![Family::Operator], ..EventFilter::default() };
        // From before it is looked at, so that its end is not missed.
        let subscription = self.subscribe(filter, Start::Now).await;
        let mut events = subscription.map_err(|error| Failure::Unavailable(error.to_string()))?;
        loop {
            let known = self.bulk(id).await?.ok_or_else(|| not_found(id))?;
            if !known.is_running() {
                return Ok(known);
            }
            loop {
                if let Item::Event { event, .. } = events.next().await
                    && let Fact::BulkFinished { bulk, .. } | Fact::BulkStopped { bulk, .. } = &event.fact
                    && **bulk == *id
                {
                    break;
                }
            }
        }
    }

    async fn read_bulks(&self, id: Option<&str>) -> Result<(Vec<Arc<BulkOperation>>, Ms), Failure> {
        let (records, now) = self.records(RecordKind::Bulk, id.map(Into::into)).await?;
        let bulks = records.iter().filter_map(|record| BulkOperation::of(record).cloned().map(Arc::new));
        Ok((bulks.collect(), now))
    }
}

fn bulk(reply: Reply) -> Result<Arc<BulkOperation>, Failure> {
    match reply {
        Reply::Bulk { bulk, .. } => Ok(bulk),
        other => Err(unexpected(&other)),
    }
}

fn not_found(id: &str) -> Failure {
    Failure::Rejected(Rejection::NotFound { what: "bulk operation".into(), id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use ff_core::commands::Create;
    use ff_core::{Kind, Payload};
    use ff_store::MemoryStore;

    use super::*;
    use crate::EngineConfig;

    #[tokio::test]
    async fn a_preview_looks_at_so_many_records_and_says_that_there_are_more() {
        let engine = Engine::start(Arc::new(MemoryStore::new(1)), EngineConfig::default()).await.unwrap();
        let create = |_| {
            let id = engine.new_execution_id(1, "default", None);
            Command::from(Create::new(id, Kind::parse("k").unwrap(), Payload::json("1")))
        };
        let created = engine.execute_all((0..2 * PART_MAX).map(create).collect()).await;
        assert!(created.iter().all(Result::is_ok));
        let preview = async |looks_max| {
            let new = NewBulk {
                id: None,
                action: Action::Cancel { grace_ms: None },
                which: Which::Filter(Box::default()),
                rate: None,
                namespaces: Vec::new(),
                actor: "t".into(),
                cause: "".into(),
            };
            let Preview { seen, more, .. } = engine.preview_among(new, looks_max).await.unwrap();
            (seen, more)
        };
        assert_eq!(preview(PART_MAX).await, (PART_MAX as u64, true));
        assert_eq!(preview(COUNT_MAX).await, (2 * PART_MAX as u64, false));
    }
}
