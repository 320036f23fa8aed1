//! Events as they are committed, and the states of one execution.

use std::sync::Arc;

use ff_core::event::{Event, Fact};
use ff_core::{Execution, ExecutionId};
use ff_engine::{Cursor, EventFilter, Start};

use crate::link::Subscription;
use crate::{Error, Fabric};

/// An event, and the place in the log right after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub event: Event,
    /// Hand it to [`Start::After`] to go on right after this event.
    pub cursor: Cursor,
}

/// The events from a place in the log on, in the order of their partition, each exactly once.
///
/// It is read with [`next`](Events::next) and has no end. A slow reader loses nothing; it is served from the
/// store.
#[derive(Debug)]
pub struct Events {
    subscription: Subscription,
}

impl Events {
    /// The next event, as soon as there is one. Safe to drop and call again. While the store or the server is out of
    /// reach it waits.
    ///
    /// # Errors
    /// A server refuses to go on, because the token was revoked or the place is older than the oldest event that is kept
    /// by now. Whoever has a good token again goes on after [`cursor`](Events::cursor).
    pub async fn next(&mut self) -> Result<Seen, Error> {
        self.subscription.next().await
    }

    /// The place right after everything received so far; events that the filter leaves out advance it too.
    pub fn cursor(&self) -> &Cursor {
        self.subscription.cursor()
    }
}

impl Fabric {
    /// Events as they happen, from a place in the log on.
    ///
    /// # Errors
    /// A cursor of another store, or one older than the oldest event that is kept.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{EventFilter, Start};
    ///
    /// let fabric = flowfabric::connect("memory:").await?;
    /// fabric.submit("charge", &1).await?;
    /// let mut events = fabric.events(EventFilter::default(), Start::Beginning).await?;
    /// let first = events.next().await?;
    /// assert_eq!(first.event.fact.word(), "created");
    ///
    /// // A cursor is a text that can be kept; whoever comes back with it misses nothing.
    /// let kept = first.cursor.to_string();
    /// fabric.submit("charge", &2).await?;
    /// let after = Start::After(kept.parse()?);
    /// let mut events = fabric.events(EventFilter::default(), after).await?;
    /// assert_ne!(events.next().await?.event.execution, first.event.execution);
    /// # Ok(()) }
    /// ```
    pub async fn events(&self, filter: EventFilter, start: Start) -> Result<Events, Error> {
        Ok(Events { subscription: self.link().subscribe(filter, start).await? })
    }

    /// The states of one execution, from the one it is in now until it has ended.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn watch(&self, id: ExecutionId) -> Result<Watch, Error> {
        let filter = EventFilter { execution: Some(id), ..EventFilter::default() };
        // Listening starts before looking, so that nothing falls between.
        let events = self.events(filter, Start::Now).await?;
        let first = self.get(id).await?;
        Ok(Watch { fabric: self.clone(), events, id, first: Some(first), shown: None, over: false })
    }
}

/// The states of one execution, one after the other.
///
/// States that pass faster than they are read may be left out; the newest and the end never are. Progress is
/// not a state: it is in the record whenever another change shows it.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("charge", &7).await?;
/// let mut watch = run.watch().await?;
/// assert_eq!(watch.next().await?.unwrap().public_state().word(), "waiting");
/// run.cancel().await?;
/// assert_eq!(watch.next().await?.unwrap().public_state().word(), "cancelled");
/// assert!(watch.next().await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Watch {
    fabric: Fabric,
    events: Events,
    id: ExecutionId,
    first: Option<Arc<Execution>>,
    shown: Option<Arc<Execution>>,
    over: bool,
}

impl Watch {
    /// The next state; `None` when the end has been shown.
    ///
    /// # Errors
    /// The store stays out of reach, or the execution was removed.
    pub async fn next(&mut self) -> Result<Option<Arc<Execution>>, Error> {
        loop {
            if self.over {
                return Ok(None);
            }
            let execution = match self.first.take() {
                Some(first) => first,
                None => {
                    let seen = self.events.next().await?;
                    self.over = matches!(seen.event.fact, Fact::Removed { .. });
                    self.fabric.get(self.id).await?
                }
            };
            if self.shown.as_ref().is_some_and(|shown| shown.live == execution.live) {
                continue;
            }
            self.over = execution.end().is_some();
            self.shown = Some(execution.clone());
            return Ok(Some(execution));
        }
    }
}
