//! The deliveries of one webhook: one at a time, in the order of the log, each until it succeeds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ff_api::event::EventDoc;
use ff_api::webhook::DeliveryDoc;
use ff_core::Ms;
use ff_core::commands::{NoteDelivery, Sent};
use ff_core::registry::Webhook;
use ff_engine::cursor::BadCursor;
use ff_engine::subscription::{Item, SubscribeError};
use ff_engine::{Cursor, Engine, EventFilter, Failure, Start, Subscription};
use futures_util::FutureExt as _;

use super::send::{Answered, Sender};
use super::sign::{Signed, message_id};

/// How much one delivery carries.
const EVENTS_MAX: usize = 100;
const BYTES_MAX: usize = 256 << 10;
/// After so many events that are not for it, a webhook is moved on, so that nobody has to pass them again.
const PASSED_MAX: usize = 10_000;
/// How much of an error is kept.
const ERROR_CHARS_MAX: usize = 250;

/// What is sent together.
struct Batch {
    /// The place right after it.
    to: Box<str>,
    events: Vec<EventDoc>,
}

pub(super) struct Delivering {
    engine: Engine,
    sender: Arc<Sender>,
    webhook: Arc<Webhook>,
}

impl Delivering {
    pub(super) fn new(engine: Engine, sender: Arc<Sender>, webhook: Arc<Webhook>) -> Delivering {
        Delivering { engine, sender, webhook }
    }

    /// Delivers until the webhook is somebody else's, or the engine does not answer.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        if let Some(at) = self.webhook.next_at {
            pause(at.saturating_sub(self.engine.now().await?)).await;
        }
        let mut subscription = self.subscribe().await?;
        loop {
            let batch = self.next(&mut subscription).await;
            if batch.events.is_empty() {
                self.note(&batch, None).await?;
                continue;
            }
            while !self.deliver(&batch).await? {}
        }
    }

    async fn subscribe(&self) -> Result<Subscription, Failure> {
        let cursor = self.webhook.cursor.as_deref().and_then(|text| text.parse::<Cursor>().ok());
        let start = cursor.map_or(Start::Beginning, Start::After);
        let all = EventFilter::default;
        let started = match self.engine.subscribe(all(), start).await {
            Err(SubscribeError::Cursor(error)) => {
                // Late deliveries are better than none: it goes on with the oldest event there is.
                tracing::warn!(webhook = %self.webhook.id, %error, "events were lost before they were delivered");
                let start = match error {
                    BadCursor::Expired { oldest } => Start::After(oldest),
                    _ => Start::Beginning,
                };
                self.engine.subscribe(all(), start).await
            }
            started => started,
        };
        started.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// Waits for an event that is for the webhook, and takes along what is there already.
    async fn next(&self, subscription: &mut Subscription) -> Batch {
        let (mut events, mut bytes, mut passed) = (Vec::new(), 0, 0);
        while events.len() < EVENTS_MAX && bytes < BYTES_MAX && passed < PASSED_MAX {
            let item = match events.is_empty() {
                true => subscription.next().await,
                false => match subscription.next().now_or_never() {
                    Some(item) => item,
                    None => break,
                },
            };
            match item {
                Item::Event { event, cursor, .. } if self.webhook.wants(&event) => {
                    let doc = EventDoc::of(&event, cursor.to_string());
                    bytes += serde_json::to_vec(&doc).map_or(0, |text| text.len());
                    events.push(doc);
                }
                Item::Event { .. } => passed += 1,
                Item::Interrupted { error, .. } => {
                    tracing::warn!(webhook = %self.webhook.id, %error, "the event log cannot be read");
                }
            }
        }
        Batch { to: subscription.cursor().to_string().into(), events }
    }

    /// Sends a batch once and notes what came of it; whether the receiver has it. After a failure it has waited as long
    /// as the rules ask for.
    async fn deliver(&mut self, batch: &Batch) -> Result<bool, Failure> {
        let body = DeliveryDoc { webhook: self.webhook.id.to_string(), events: batch.events.clone() };
        let body = serde_json::to_vec(&body).map_err(|error| Failure::Internal(error.to_string()))?;
        let id = message_id(&self.webhook, &batch.to);
        let signed = Signed::new(&self.webhook, id, self.engine.now().await?, &body);
        let Answered { status, error, took_ms } =
            self.sender.post(&self.webhook.url, &signed, Bytes::from(body)).await;
        let sent = Sent {
            number: self.webhook.tried + 1,
            events: u32::try_from(batch.events.len()).unwrap_or(u32::MAX),
            status,
            error: error.map(|text| text.chars().take(ERROR_CHARS_MAX).collect::<String>().into()),
            took_ms,
        };
        self.note(batch, Some(sent)).await?;
        let last = self.webhook.recent.last();
        if let (Some(next_at), Some(last)) = (self.webhook.next_at, last) {
            pause(next_at.saturating_sub(last.at)).await;
        }
        Ok(self.webhook.failures == 0)
    }

    async fn note(&mut self, batch: &Batch, sent: Option<Sent>) -> Result<(), Failure> {
        let note = NoteDelivery {
            webhook: self.webhook.id.clone(),
            server: self.engine.server().into(),
            from: self.webhook.cursor.clone(),
            to: batch.to.clone(),
            sent,
            seed: self.engine.random(),
        };
        self.webhook = self.engine.note_delivery(note).await?;
        Ok(())
    }
}

async fn pause(ms: Ms) {
    tokio::time::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0))).await;
}
