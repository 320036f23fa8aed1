//! What others read of an execution's output.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use ff_core::query::{FramePageAsk, Order};
use ff_core::stream::{Frame, Summary};
use ff_engine::Place;

use crate::listing::LIMIT;
use crate::{Error, Run, Tail};

/// How many bytes one page has, about.
const PAGE_BYTES: usize = 4 << 20;

impl Run {
    /// The frames of an attempt, oldest first; of the newest attempt that has any unless it is said.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// # let run = fabric.submit("write", &1).await?;
    /// let first = run.frames().limit(100).await?;
    /// let newest = run.frames().newest_first().limit(10).await?;
    /// # assert!(first.is_empty() && newest.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn frames(&self) -> Frames {
        let (order, limit) = (Order::OldestFirst, LIMIT.1);
        Frames { run: self.clone(), attempt: None, order, after: 0, limit }
    }

    /// Follows its output as it is appended, attempt after attempt, from a place on; from the beginning without one.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn tail(&self, after: Option<Place>) -> Result<Tail, Error> {
        let fabric = self.fabric();
        fabric.retried(|| fabric.link().tail(self.id(), after)).await
    }

    /// The summary document of its newest attempt that has output.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn summary(&self) -> Result<Option<Summary>, Error> {
        let fabric = self.fabric();
        let stream = fabric.retried(|| fabric.link().stream(self.id())).await?;
        Ok(stream.and_then(|stream| stream.summary.clone()))
    }
}

/// A question for frames, asked when it is awaited.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before it is awaited"]
pub struct Frames {
    run: Run,
    attempt: Option<u32>,
    order: Order,
    after: u64,
    limit: usize,
}

impl Frames {
    pub fn attempt(mut self, attempt: u32) -> Frames {
        self.attempt = Some(attempt);
        self
    }

    pub fn newest_first(mut self) -> Frames {
        self.order = Order::NewestFirst;
        self
    }

    /// Only frames after this number, or before it if the newest come first.
    pub fn after(mut self, number: u64) -> Frames {
        self.after = number;
        self
    }

    /// How many at most: 1 to 1,000.
    pub fn limit(mut self, limit: usize) -> Frames {
        self.limit = limit.clamp(1, LIMIT.1);
        self
    }

    async fn read(self) -> Result<Vec<Frame>, Error> {
        let fabric = self.run.fabric();
        let execution = self.run.id();
        let attempt = match self.attempt {
            Some(attempt) => attempt,
            None => match fabric.retried(|| fabric.link().stream(execution)).await? {
                Some(stream) => stream.attempt,
                None => return fabric.get(execution).await.map(|_| Vec::new()),
            },
        };
        let Frames { order, after, limit, .. } = self;
        let ask = FramePageAsk { execution, attempt, order, after, limit, bytes: PAGE_BYTES };
        fabric.retried(|| fabric.link().frames(ask)).await
    }
}

impl IntoFuture for Frames {
    type Output = Result<Vec<Frame>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
