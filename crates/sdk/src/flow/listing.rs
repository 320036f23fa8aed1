//! Finding flows: a page at a time, in both directions.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use ff_core::flow::FlowState;
use ff_core::query::{FlowFilter, FlowPageAsk, Order};
use ff_core::rejection::Invalid;
use ff_core::{Flow, FlowId, Kind, Ms, Namespace};

use crate::listing::{LIMIT, PageCursor, Part, SCAN, turn_pages};
use crate::{Error, Fabric};

/// Flows that match, and where the neighbouring pages start.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPage {
    pub flows: Vec<Flow>,
    pub next: Option<PageCursor>,
    pub previous: Option<PageCursor>,
}

/// A question for flows, asked when it is awaited.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before it is awaited"]
pub struct FlowList {
    fabric: Fabric,
    filter: Result<FlowFilter, Error>,
    order: Order,
    limit: usize,
    cursor: Option<PageCursor>,
}

impl Fabric {
    /// Flows, newest first, to be narrowed down step by step.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// use flowfabric::FlowState;
    ///
    /// for n in 0..3 {
    ///     let flow = fabric.flow("etl").tag("day", &n.to_string());
    ///     flow.node("extract", &n);
    ///     flow.submit().await?;
    /// }
    /// let page = fabric.flows().kind("etl").state(FlowState::Running).limit(2).await?;
    /// assert_eq!((page.flows.len(), page.next.is_some()), (2, true));
    /// assert_eq!(fabric.flows().tag("day", "1").await?.flows.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn flows(&self) -> FlowList {
        self.list_flows(FlowFilter::default())
    }

    /// Flows that match a filter, newest first.
    pub fn list_flows(&self, filter: FlowFilter) -> FlowList {
        let (order, limit) = (Order::NewestFirst, LIMIT.0);
        FlowList { fabric: self.clone(), filter: Ok(filter), order, limit, cursor: None }
    }
}

impl FlowList {
    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut FlowFilter, T)) -> FlowList {
        match (&mut self.filter, value) {
            (Ok(filter), Ok(value)) => put(filter, value),
            (Ok(_), Err(invalid)) => self.filter = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    pub fn namespace(self, name: &str) -> FlowList {
        self.set(Namespace::parse(name), |filter, it| filter.namespace = Some(it))
    }

    pub fn kind(self, name: &str) -> FlowList {
        self.set(Kind::parse(name), |filter, it| filter.kind = Some(it))
    }

    /// One of the states it may be in; may be given several times.
    pub fn state(self, state: FlowState) -> FlowList {
        self.set(Ok(state), |filter, it| filter.states.push(it))
    }

    pub fn tag(self, key: &str, value: &str) -> FlowList {
        self.set(Ok((key.to_owned(), value.to_owned())), |filter, it| filter.tags.push(it))
    }

    /// Created at or after the first time and before the second, in milliseconds since the Unix epoch.
    pub fn created(self, from: Option<Ms>, before: Option<Ms>) -> FlowList {
        self.set(Ok((from, before)), |filter, it| (filter.created_from, filter.created_before) = it)
    }

    pub fn oldest_first(mut self) -> FlowList {
        self.order = Order::OldestFirst;
        self
    }

    /// How many at most: 1 to 1,000.
    pub fn limit(mut self, limit: usize) -> FlowList {
        self.limit = limit.clamp(1, LIMIT.1);
        self
    }

    /// The page that starts where another one ended. The question must be the same.
    pub fn cursor(mut self, cursor: PageCursor) -> FlowList {
        self.cursor = Some(cursor);
        self
    }

    async fn read(self) -> Result<FlowPage, Error> {
        let filter = self.filter?;
        let read = |part: Part| {
            let (after, order) = (part.after.map(FlowId), part.order);
            let ask =
                FlowPageAsk { filter: filter.clone(), order, after, limit: part.limit, scan_max: SCAN.0 };
            let fabric = &self.fabric;
            async move {
                let page = fabric.retried(|| fabric.link().flows(ask.clone())).await?;
                Ok((page.flows, page.next.map(|id| id.0)))
            }
        };
        let (flows, next, previous) =
            turn_pages(self.cursor, self.order, self.limit, read, |it: &Flow| it.id.0).await?;
        Ok(FlowPage { flows, next, previous })
    }
}

impl IntoFuture for FlowList {
    type Output = Result<FlowPage, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
