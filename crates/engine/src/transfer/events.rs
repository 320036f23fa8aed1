//! The event log: the logs of all partitions in the order of their times, shared out anew.

use std::collections::VecDeque;

use ff_core::PartitionId;
use ff_core::event::Event;
use ff_core::registry::{Record, RecordKind, Webhook};

use super::executions::place_of;
use super::source::{PAGE, Source};
use super::target::Target;
use super::{Progress, Stage, TransferError, Transferred};
use crate::cursor::Cursor;

/// About how much an event weighs.
const EVENT_BYTES: usize = 400;
/// After how many events progress is told.
const TOLD: u64 = 10_000;

/// The log of one partition, read in pages.
struct Log {
    partition: PartitionId,
    page: VecDeque<Event>,
    next: u64,
    end: u64,
}

impl Log {
    /// The next event, which stays where it is.
    async fn front(&mut self, source: &Source<'_>) -> Result<Option<&Event>, TransferError> {
        if self.page.is_empty() && self.next < self.end {
            let page = source.store.events(self.partition, self.next, PAGE).await;
            let page = page.map_err(TransferError::Source)?;
            self.next = page.events.last().map_or(self.end, |event| event.number + 1);
            self.page = page.events.into();
        }
        Ok(self.page.front())
    }
}

/// Copies all events. Those of one partition stay in their order, and times never go back, wherever they end up.
pub(super) async fn events(
    source: &Source<'_>,
    target: &mut Target<'_>,
    done: &mut Transferred,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<Webhooks, TransferError> {
    let mut webhooks = Webhooks::of(source, target).await?;
    let (mut logs, mut of) = (Vec::new(), 0);
    for partition in source.each() {
        let page = source.store.events(partition, 0, 1).await.map_err(TransferError::Source)?;
        of += page.next.saturating_sub(page.oldest);
        logs.push(Log { partition, page: VecDeque::new(), next: page.oldest, end: page.next });
    }
    loop {
        let mut first: Option<(i64, usize)> = None;
        for (at, log) in logs.iter_mut().enumerate() {
            if let Some(event) = log.front(source).await?
                && first.is_none_or(|(earliest, _)| event.at < earliest)
            {
                first = Some((event.at, at));
            }
        }
        let Some((_, at)) = first else { break };
        let partition = logs[at].partition;
        let Some(event) = logs[at].page.pop_front() else { break };
        let (place, number) = (place_of(&event, partition, target), event.number);
        let given = target.put_in(place, EVENT_BYTES, |desk| desk.restore_event(event));
        webhooks.note(partition, number, place, given);
        target.make_room().await?;
        done.events += 1;
        if done.events.is_multiple_of(TOLD) {
            tell(Progress { stage: Stage::Events, done: done.events, of });
        }
    }
    tell(Progress { stage: Stage::Events, done: done.events, of });
    Ok(webhooks)
}

/// Webhooks, and where each of them goes on in the copy's log.
pub(super) struct Webhooks(Vec<Reader>);

struct Reader {
    webhook: Webhook,
    /// By partition, the next event that it has not delivered.
    was: Option<Vec<u64>>,
    /// The same in the copy, where there is such an event.
    is: Vec<Option<u64>>,
}

impl Webhooks {
    async fn of(source: &Source<'_>, target: &Target<'_>) -> Result<Webhooks, TransferError> {
        let mut readers = Vec::new();
        for record in source.records(RecordKind::Webhook).await? {
            let Record::Webhook(webhook) = &*record else { continue };
            let cursor = webhook.cursor.as_ref().and_then(|text| text.parse::<Cursor>().ok());
            let was = cursor.map(|cursor| cursor.next);
            let is = target.each().map(|_| None).collect();
            readers.push(Reader { webhook: webhook.clone(), was, is });
        }
        Ok(Webhooks(readers))
    }

    /// An event has got another number in another place. Where logs are merged, some that were delivered may come after
    /// the first that was not; they are delivered again, as after a lost answer.
    fn note(&mut self, partition: PartitionId, number: u64, place: PartitionId, given: u64) {
        for reader in &mut self.0 {
            let next = reader.was.as_ref().and_then(|was| was.get(partition.index()));
            if next.is_some_and(|next| number >= *next) {
                reader.is[place.index()].get_or_insert(given);
            }
        }
    }

    /// The webhooks as they are in the copy. Nobody there delivers for them yet.
    pub fn on(self, target: &Target<'_>) -> Vec<Webhook> {
        let store = target.store.info().id;
        let webhook = |Reader { webhook, was, is }| {
            let next = target.each().zip(is).map(|(place, next)| next.unwrap_or(target.next_event(place)));
            let cursor = was.map(|_| Cursor { store, next: next.collect() }.to_string().into());
            Webhook { cursor, server: None, ..webhook }
        };
        self.0.into_iter().map(webhook).collect()
    }
}
