//! Events as they are committed, over all partitions, from any place in the log on.
//!
//! A subscriber is always served from the store, in partition order; a slow one costs nothing but its place.
//! Events that a filter leaves out still advance the cursor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ff_core::event::{Event, Family};
use ff_core::{ExecutionId, FlowId, LaneName, Ms, Namespace, PartitionId};
use ff_store::{Store, StoreError};

use crate::cursor::{BadCursor, Cursor};
use crate::driver::Shared;

/// How many events are read at once.
const PAGE: usize = 512;

/// Which events. Everything that is given must hold; an empty filter lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub families: Vec<Family>,
    pub namespace: Option<Namespace>,
    pub lane: Option<LaneName>,
    pub execution: Option<ExecutionId>,
    /// Of a flow and of all its members.
    pub flow: Option<FlowId>,
    pub tag: Option<(String, String)>,
}

impl EventFilter {
    pub fn matches(&self, event: &Event) -> bool {
        (self.families.is_empty() || self.families.contains(&event.fact.family()))
            && self.namespace.as_ref().is_none_or(|it| event.namespace.as_ref() == Some(it))
            && self.lane.as_ref().is_none_or(|it| event.lane.as_ref() == Some(it))
            && self.execution.is_none_or(|it| event.execution == Some(it))
            && self.flow.is_none_or(|it| event.flow == Some(it))
            && self.tag.as_ref().is_none_or(|(key, value)| event.tags.get(key) == Some(value))
    }
}

/// Where a subscription starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    #[default]
    Now,
    Beginning,
    At(Ms),
    After(Cursor),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubscribeError {
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    #[error("the store is unavailable: {0}")]
    Store(#[from] StoreError),
}

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// An event, and the cursor that goes on right after it.
    Event { event: Box<Event>, partition: PartitionId, cursor: Cursor },
    /// The store could not be read; the subscription goes on by itself from this cursor.
    Interrupted { error: String, cursor: Cursor },
}

#[derive(Debug)]
pub struct Subscription {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    filter: EventFilter,
    cursor: Cursor,
    buffer: VecDeque<(PartitionId, Event)>,
    /// The partition that is read next, so that a busy one does not hide the others.
    turn: usize,
    interrupted: bool,
}

impl Subscription {
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        shared: Arc<Shared>,
        filter: EventFilter,
        start: Start,
    ) -> Result<Subscription, SubscribeError> {
        let info = store.info();
        let partitions = (0..info.partitions).map(PartitionId);
        let mut next = Vec::new();
        let mut oldest = Vec::new();
        for partition in partitions {
            let page = store.events(partition, u64::MAX, 1).await?;
            oldest.push(page.oldest);
            next.push(match &start {
                Start::Now => page.next,
                Start::Beginning => page.oldest,
                Start::At(at) => store.first_event_since(partition, *at).await?.max(page.oldest),
                Start::After(_) => 0,
            });
        }
        let mut cursor = Cursor { store: info.id, next };
        if let Start::After(given) = start {
            if given.store != info.id || given.next.len() != cursor.next.len() {
                return Err(BadCursor::OtherStore.into());
            }
            if given.next.iter().zip(&oldest).any(|(next, oldest)| next < oldest) {
                let oldest = Cursor { store: info.id, next: oldest };
                return Err(BadCursor::Expired { oldest }.into());
            }
            cursor = given;
        }
        shared.subscribers.fetch_add(1, Ordering::SeqCst);
        let buffer = VecDeque::new();
        Ok(Subscription { store, shared, filter, cursor, buffer, turn: 0, interrupted: false })
    }

    /// The place right after everything received so far.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The next event, as soon as there is one. Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Item {
        loop {
            if let Some(item) = self.buffered() {
                return item;
            }
            // Ask to be woken before looking, so that nothing falls between.
            let shared = self.shared.clone();
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.fill().await {
                Ok(true) => self.interrupted = false,
                Ok(false) => changed.await,
                Err(error) if self.interrupted => {
                    drop(error);
                    self.shared.unread.store(true, Ordering::Release);
                    changed.await;
                }
                Err(error) => {
                    self.interrupted = true;
                    return Item::Interrupted { error: error.to_string(), cursor: self.cursor.clone() };
                }
            }
        }
    }

    /// The next event that is there already.
    pub async fn next_now(&mut self) -> Option<Item> {
        let mut looks = usize::MAX;
        self.next_within(&mut looks).await
    }

    /// The next event that is there already, unless it takes more than so many to find it. What was looked at is taken
    /// off; once nothing is left, there may be more than was seen.
    pub async fn next_within(&mut self, looks: &mut usize) -> Option<Item> {
        loop {
            if let Some(item) = self.buffered() {
                return Some(item);
            }
            if *looks == 0 {
                return None;
            }
            match self.fill().await {
                Ok(true) => *looks = looks.saturating_sub(self.buffer.len()),
                Ok(false) => return None,
                Err(error) => {
                    return Some(Item::Interrupted { error: error.to_string(), cursor: self.cursor.clone() });
                }
            }
        }
    }

    /// The next event that was read and matches; others move the cursor.
    fn buffered(&mut self) -> Option<Item> {
        while let Some((partition, event)) = self.buffer.pop_front() {
            self.cursor.next[partition.index()] = event.number + 1;
            if self.filter.matches(&event) {
                let cursor = self.cursor.clone();
                return Some(Item::Event { event: Box::new(event), partition, cursor });
            }
        }
        None
    }

    /// Reads the next events of the first partition that has some.
    async fn fill(&mut self) -> Result<bool, StoreError> {
        let count = self.cursor.next.len();
        for n in 0..count {
            let index = (self.turn + n) % count;
            let from = self.cursor.next[index];
            if from >= self.shared.next_events[index].load(Ordering::Acquire) {
                continue;
            }
            let partition = PartitionId(index as u16);
            let page = self.store.events(partition, from, PAGE).await?;
            if !page.events.is_empty() {
                self.turn = index + 1;
                self.buffer.extend(page.events.into_iter().map(|event| (partition, event)));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.subscribers.fetch_sub(1, Ordering::SeqCst);
    }
}
