//! The inbox: open waitpoints, and their tokens.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use ff_core::ExecutionId;
use ff_core::name::{Kind, LaneName, Namespace, SignalName};
use ff_core::query::{Order, WaitpointFilter, WaitpointPageAsk};
use ff_core::rejection::Invalid;
use ff_core::state::Reason;
use ff_core::suspension::{WaitpointEntry, WaitpointId};
use ff_engine::OpenedWaitpoint;

use crate::listing::{LIMIT, SCAN};
use crate::{Error, Fabric};

impl Fabric {
    /// Open waitpoints, newest first: what waits for somebody outside.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let page = fabric.waitpoints().name("approval").kind("refund").limit(20).await?;
    /// assert!(page.waitpoints.is_empty() && page.next.is_none());
    /// # Ok(()) }
    /// ```
    pub fn waitpoints(&self) -> WaitpointList {
        let (filter, order, limit) = (Ok(WaitpointFilter::default()), Order::NewestFirst, LIMIT.0);
        WaitpointList { fabric: self.clone(), filter, order, after: None, limit }
    }

    /// The token of an open waitpoint. It is made, not read: tokens are stored nowhere. That it was made is an event.
    ///
    /// # Errors
    /// `not_found` if there is no such waitpoint, or it is closed.
    pub async fn issue_token(&self, waitpoint: WaitpointId) -> Result<OpenedWaitpoint, Error> {
        self.issue_token_as(waitpoint, "sdk", "").await
    }

    /// The same, in the name of somebody.
    ///
    /// # Errors
    /// Those of [`issue_token`](Fabric::issue_token).
    pub async fn issue_token_as(
        &self,
        waitpoint: WaitpointId,
        actor: &str,
        cause: &str,
    ) -> Result<OpenedWaitpoint, Error> {
        self.retried(|| self.link().issue_token(waitpoint, actor, cause)).await
    }
}

/// Open waitpoints that match, and where the next page starts.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointPage {
    pub waitpoints: Vec<WaitpointEntry>,
    pub next: Option<WaitpointId>,
}

/// A question for open waitpoints, asked when it is awaited.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before it is awaited"]
pub struct WaitpointList {
    fabric: Fabric,
    filter: Result<WaitpointFilter, Error>,
    order: Order,
    after: Option<WaitpointId>,
    limit: usize,
}

impl WaitpointList {
    /// Sets something that was checked; the first thing that does not fit is what the asker hears.
    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut WaitpointFilter, T)) -> Self {
        match (&mut self.filter, value) {
            (Ok(filter), Ok(value)) => put(filter, value),
            (Ok(_), Err(invalid)) => self.filter = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    pub fn namespace(self, name: &str) -> Self {
        self.set(Namespace::parse(name), |filter, it| filter.namespace = Some(it))
    }

    pub fn lane(self, name: &str) -> Self {
        self.set(LaneName::parse(name), |filter, it| filter.lane = Some(it))
    }

    /// Of executions of this kind.
    pub fn kind(self, name: &str) -> Self {
        self.set(Kind::parse(name), |filter, it| filter.kind = Some(it))
    }

    pub fn name(self, name: &str) -> Self {
        self.set(SignalName::parse(name), |filter, it| filter.name = Some(it))
    }

    /// That an execution waits for, for this reason.
    pub fn reason(self, reason: Reason) -> Self {
        self.set(Ok(reason), |filter, it| filter.reason = Some(it))
    }

    pub fn execution(self, id: ExecutionId) -> Self {
        self.set(Ok(id), |filter, it| filter.execution = Some(it))
    }

    pub fn oldest_first(mut self) -> Self {
        self.order = Order::OldestFirst;
        self
    }

    /// The page after another one, which said so. The question must be the same.
    pub fn after(mut self, place: WaitpointId) -> Self {
        self.after = Some(place);
        self
    }

    /// How many at most: 1 to 1,000.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.clamp(1, LIMIT.1);
        self
    }

    async fn read(self) -> Result<WaitpointPage, Error> {
        let WaitpointList { fabric, filter, order, mut after, limit } = self;
        let filter = filter?;
        let mut waitpoints = Vec::new();
        // A filter that matches little takes several reads.
        for _ in 0..SCAN.1 {
            let left = limit - waitpoints.len();
            let ask =
                WaitpointPageAsk { filter: filter.clone(), order, after, limit: left, scan_max: SCAN.0 };
            let page = fabric.retried(|| fabric.link().waitpoints(ask.clone())).await?;
            waitpoints.extend(page.waitpoints);
            after = page.next;
            if after.is_none() || waitpoints.len() >= limit {
                break;
            }
        }
        Ok(WaitpointPage { waitpoints, next: after })
    }
}

impl IntoFuture for WaitpointList {
    type Output = Result<WaitpointPage, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
