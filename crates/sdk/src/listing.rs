//! Finding executions: a page at a time, in both directions.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::str::FromStr;

use ff_core::query::{Filter, Order, PageAsk};
use ff_core::rejection::Invalid;
use ff_core::state::Reason;
use ff_core::{Execution, ExecutionId, FlowId, Kind, LaneName, Ms, Namespace, PublicState, WorkerName};
use uuid::Uuid;

use crate::{Error, Fabric};

/// How many are on a page unless it is said, and at most.
pub(crate) const LIMIT: (usize, usize) = (50, 1_000);
/// How many records are looked at in one read, and how many reads one page makes for a filter that matches
/// little.
pub(crate) const SCAN: (usize, usize) = (10_000, 10);

/// A place between two pages, as a text that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCursor {
    at: Uuid,
    backwards: bool,
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.backwards { "p" } else { "n" }, self.at.simple())
    }
}

impl FromStr for PageCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<PageCursor, Error> {
        let bad = || Error::invalid("cursor", "is not one that came with a page");
        let backwards = match text.get(..1) {
            Some("n") => false,
            Some("p") => true,
            _ => return Err(bad()),
        };
        let at = text[1..].parse().map_err(|_| bad())?;
        Ok(PageCursor { at, backwards })
    }
}

/// Executions that match, and where the neighbouring pages start.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub executions: Vec<Execution>,
    pub next: Option<PageCursor>,
    pub previous: Option<PageCursor>,
}

/// A question for executions, asked when it is awaited.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before it is awaited"]
pub struct List {
    fabric: Fabric,
    filter: Result<Filter, Error>,
    order: Order,
    limit: usize,
    cursor: Option<PageCursor>,
}

impl Fabric {
    /// Executions that match a filter, newest first.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// use flowfabric::PublicState;
    ///
    /// for n in 0..5 {
    ///     fabric.submit("charge", &n).lane("billing").await?;
    /// }
    /// let search = || fabric.search().lane("billing").state(PublicState::Waiting).limit(3);
    /// let first = search().await?;
    /// let second = search().cursor(first.next.unwrap()).await?;
    /// assert_eq!((first.executions.len(), second.executions.len()), (3, 2));
    /// assert_eq!(search().cursor(second.previous.unwrap()).await?.executions, first.executions);
    /// # Ok(()) }
    /// ```
    pub fn list(&self, filter: Filter) -> List {
        let (order, limit) = (Order::NewestFirst, LIMIT.0);
        List { fabric: self.clone(), filter: Ok(filter), order, limit, cursor: None }
    }

    /// As [`list`](Fabric::list), to be narrowed down step by step.
    pub fn search(&self) -> List {
        self.list(Filter::default())
    }
}

impl List {
    /// Sets something that was checked; the first thing that does not fit is what the asker hears.
    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut Filter, T)) -> List {
        match (&mut self.filter, value) {
            (Ok(filter), Ok(value)) => put(filter, value),
            (Ok(_), Err(invalid)) => self.filter = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    pub fn namespace(self, name: &str) -> List {
        self.set(Namespace::parse(name), |filter, it| filter.namespace = Some(it))
    }

    pub fn lane(self, name: &str) -> List {
        self.set(LaneName::parse(name), |filter, it| filter.lane = Some(it))
    }

    pub fn kind(self, name: &str) -> List {
        self.set(Kind::parse(name), |filter, it| filter.kind = Some(it))
    }

    /// Members of this flow.
    pub fn flow(self, flow: FlowId) -> List {
        self.set(Ok(flow), |filter, it| filter.flow = Some(it))
    }

    /// One of the states it may be in; may be given several times.
    pub fn state(self, state: PublicState) -> List {
        self.set(Ok(state), |filter, it| filter.states.push(it))
    }

    pub fn reason(self, reason: Reason) -> List {
        self.set(Ok(reason), |filter, it| filter.reason = Some(it))
    }

    /// The worker that runs or ran its newest attempt.
    pub fn worker(self, name: &str) -> List {
        self.set(WorkerName::parse(name), |filter, it| filter.worker = Some(it))
    }

    pub fn tag(self, key: &str, value: &str) -> List {
        self.set(Ok((key.to_owned(), value.to_owned())), |filter, it| filter.tags.push(it))
    }

    pub fn error_code(self, code: &str) -> List {
        self.set(Ok(code.to_owned()), |filter, it| filter.error_code = Some(it))
    }

    /// Text inside the error message, without regard to case.
    pub fn error_text(self, text: &str) -> List {
        self.set(Ok(text.to_owned()), |filter, it| filter.error_text = Some(it))
    }

    /// Created at or after the first time and before the second, in milliseconds since the Unix epoch.
    pub fn created(self, from: Option<Ms>, before: Option<Ms>) -> List {
        self.set(Ok((from, before)), |filter, it| (filter.created_from, filter.created_before) = it)
    }

    pub fn oldest_first(mut self) -> List {
        self.order = Order::OldestFirst;
        self
    }

    /// How many at most: 1 to 1,000.
    pub fn limit(mut self, limit: usize) -> List {
        self.limit = limit.clamp(1, LIMIT.1);
        self
    }

    /// The page that starts where another one ended. The question must be the same.
    pub fn cursor(mut self, cursor: PageCursor) -> List {
        self.cursor = Some(cursor);
        self
    }

    async fn read(self) -> Result<Page, Error> {
        let filter = self.filter?;
        let read = |part: Part| {
            let (after, order) = (part.after.map(ExecutionId), part.order);
            let ask = PageAsk { filter: filter.clone(), order, after, limit: part.limit, scan_max: SCAN.0 };
            let fabric = &self.fabric;
            async move {
                let page = fabric.retried(|| fabric.link().list(ask.clone())).await?;
                Ok((page.executions, page.next.map(|id| id.0)))
            }
        };
        let (executions, next, previous) =
            turn_pages(self.cursor, self.order, self.limit, read, |it: &Execution| it.id.0).await?;
        Ok(Page { executions, next, previous })
    }
}

/// One read of a page that may take several.
pub(crate) struct Part {
    pub order: Order,
    pub after: Option<Uuid>,
    pub limit: usize,
}

/// A page with the cursors of its neighbours.
type Turned<T> = (Vec<T>, Option<PageCursor>, Option<PageCursor>);

/// Reads a page in the direction of its cursor, in as many reads as a filter that matches little needs.
pub(crate) async fn turn_pages<T, F: Future<Output = Result<(Vec<T>, Option<Uuid>), Error>>>(
    cursor: Option<PageCursor>,
    order: Order,
    limit: usize,
    read: impl Fn(Part) -> F,
    id: impl Fn(&T) -> Uuid,
) -> Result<Turned<T>, Error> {
    let backwards = cursor.is_some_and(|cursor| cursor.backwards);
    let order = match (order, backwards) {
        (order, false) => order,
        (Order::NewestFirst, true) => Order::OldestFirst,
        (Order::OldestFirst, true) => Order::NewestFirst,
    };
    let start = cursor.map(|cursor| cursor.at);
    let (mut found, mut onward) = (Vec::new(), start);
    for _ in 0..SCAN.1 {
        let (more, next) = read(Part { order, after: onward, limit: limit - found.len() }).await?;
        found.extend(more);
        onward = next;
        if onward.is_none() || found.len() >= limit {
            break;
        }
    }
    let back = start.map(|start| found.first().map_or_else(|| behind(start, order), id));
    let onward = onward.map(|at| PageCursor { at, backwards });
    let back = back.map(|at| PageCursor { at, backwards: !backwards });
    if backwards {
        found.reverse();
        return Ok((found, back, onward));
    }
    Ok((found, onward, back))
}

/// The place from which the way back starts with `at` itself.
fn behind(at: Uuid, order: Order) -> Uuid {
    let number = at.as_u128();
    Uuid::from_u128(match order {
        Order::OldestFirst => number.saturating_add(1),
        Order::NewestFirst => number.saturating_sub(1),
    })
}

impl IntoFuture for List {
    type Output = Result<Page, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
