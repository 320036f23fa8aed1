//! The same done to many executions: cancelled, run again, or given another priority.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

pub use ff_api::bulk::{BulkDoc as BulkInfo, BulkPreviewDoc as BulkPreview};
use ff_api::bulk::{BulkRequest, FilterDoc};
use ff_api::time::Span;
use ff_core::registry::BulkVerb;

use crate::time::ms;
use crate::{Error, ExecutionId, Fabric, Filter};

/// What bulk operations there are, and new ones.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// use flowfabric::Filter;
///
/// for n in 0..3 {
///     fabric.submit("charge", &n).lane("billing").await?;
/// }
/// let filter = Filter { lane: Some("billing".parse().unwrap()), ..Filter::default() };
/// let cancel = || fabric.bulk().cancel().filter(&filter).cause("the bank is closed");
/// assert_eq!(cancel().preview().await?.done, 3);
/// let run = cancel().rate(100).await?;
/// assert_eq!(run.wait().await?.done, 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    fabric: &'a Fabric,
}

impl Fabric {
    /// The same done to many executions.
    pub fn bulk(&self) -> Bulk<'_> {
        Bulk { fabric: self }
    }
}

impl Bulk<'_> {
    /// Cancels executions as [`Fabric::cancel`] does.
    pub fn cancel(&self) -> NewBulk {
        NewBulk::new(self.fabric, BulkVerb::Cancel)
    }

    /// Runs executions that have ended again, as [`Fabric::replay`] does; those that end while it goes on are left
    /// alone.
    pub fn replay(&self) -> NewBulk {
        NewBulk::new(self.fabric, BulkVerb::Replay)
    }

    /// Changes the priority of executions that have not ended.
    pub fn set_priority(&self, priority: i8) -> NewBulk {
        let mut new = NewBulk::new(self.fabric, BulkVerb::Priority);
        new.request.priority = Some(priority);
        new
    }

    /// Those that run and the last hundred that have ended, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self) -> Result<Vec<BulkInfo>, Error> {
        self.fabric.retried(|| self.fabric.link().bulks()).await
    }

    /// One that was begun, by its id.
    pub fn run(&self, id: &str) -> BulkRun {
        BulkRun { fabric: self.fabric.clone(), id: id.to_owned() }
    }
}

/// A bulk operation that begins when it is awaited. Sent twice, it begins once.
///
/// It reaches what matched and was there when it began; what matches later is left alone.
#[derive(Clone, Debug)]
#[must_use = "nothing is done before it is awaited"]
pub struct NewBulk {
    fabric: Fabric,
    verb: BulkVerb,
    request: BulkRequest,
}

impl NewBulk {
    fn new(fabric: &Fabric, verb: BulkVerb) -> NewBulk {
        let id = Some(format!("bulk_{:016x}", fabric.link().random()));
        let request = BulkRequest { id, actor: Some("sdk".to_owned()), ..BulkRequest::default() };
        NewBulk { fabric: fabric.clone(), verb, request }
    }

    /// To these executions.
    pub fn ids(mut self, ids: impl IntoIterator<Item = ExecutionId>) -> NewBulk {
        self.request.ids = Some(ids.into_iter().collect());
        self
    }

    /// To those that match; an empty filter matches all.
    pub fn filter(mut self, filter: &Filter) -> NewBulk {
        self.request.filter = Some(FilterDoc::from(filter));
        self
    }

    /// To no more than so many in a second.
    pub fn rate(mut self, per_second: u32) -> NewBulk {
        self.request.rate = Some(per_second);
        self
    }

    /// How long a worker that runs one of them may take to end by itself; only for cancelling.
    pub fn grace(mut self, grace: Duration) -> NewBulk {
        self.request.grace_ms = Some(Span(ms(grace)));
        self
    }

    /// Who does it; `sdk` otherwise.
    pub fn actor(mut self, actor: &str) -> NewBulk {
        self.request.actor = Some(actor.to_owned());
        self
    }

    /// Why.
    pub fn cause(mut self, cause: &str) -> NewBulk {
        self.request.cause = Some(cause.to_owned());
        self
    }

    /// Under which it is known again; one is drawn otherwise.
    pub fn id(mut self, id: &str) -> NewBulk {
        self.request.id = Some(id.to_owned());
        self
    }

    /// Says what would be done, and does nothing.
    ///
    /// # Errors
    /// `invalid` if a field does not fit, or neither ids nor a filter are given.
    pub async fn preview(self) -> Result<BulkPreview, Error> {
        let request = BulkRequest { dry_run: true, ..self.request };
        self.fabric.retried(|| self.fabric.link().preview_bulk(self.verb, &request)).await
    }
}

impl IntoFuture for NewBulk {
    type Output = Result<BulkRun, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let begun =
                self.fabric.retried(|| self.fabric.link().start_bulk(self.verb, &self.request)).await?;
            Ok(BulkRun { fabric: self.fabric.clone(), id: begun.id })
        })
    }
}

/// A bulk operation that was begun. On a store of this process, this process carries it out as long as it lives; a server
/// goes on with what is left.
#[derive(Clone, Debug)]
pub struct BulkRun {
    fabric: Fabric,
    id: String,
}

impl BulkRun {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far it has come.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn get(&self) -> Result<BulkInfo, Error> {
        self.fabric.retried(|| self.fabric.link().bulk(&self.id)).await
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn wait(&self) -> Result<BulkInfo, Error> {
        self.fabric.retried(|| self.fabric.link().wait_bulk(&self.id)).await
    }

    /// Stops it; what it has done stays done.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn stop(&self, actor: &str, cause: &str) -> Result<BulkInfo, Error> {
        self.fabric.retried(|| self.fabric.link().stop_bulk(&self.id, actor, cause)).await
    }
}
