//! Events as they are committed, over a connection that may break.

use ff_api::Problem;
use ff_api::record::EventRecord;
use ff_engine::cursor::BadCursor;
use ff_engine::{Cursor, EventFilter, Failure, Start};
use serde::Deserialize;

use super::http::{Answer, Call};
use super::live::Live;
use super::query::Query;
use super::{Remote, read};
use crate::fabric::Patience;
use crate::{Error, Seen};

/// A subscription: where it stands, and what comes.
#[derive(Debug)]
pub(crate) struct Following {
    cursor: Cursor,
    live: Live,
    refused: Option<Failure>,
}

/// Where a page of events ends.
#[derive(Deserialize)]
struct PageEnd {
    next_cursor: String,
}

impl Remote {
    /// The place is settled before this returns, so that nothing that happens afterwards is missed.
    pub async fn subscribe(&self, filter: EventFilter, start: Start) -> Result<Following, Error> {
        let query = Query::new("/v1/events");
        let first = match &start {
            Start::Now => query.set("start", "now"),
            Start::Beginning => query.set("start", "beginning"),
            Start::At(at) => query.set("start", at),
            Start::After(cursor) => query.set("cursor", cursor),
        };
        let mut patience = Patience::of(self.retry_for);
        let call = Call::get(first.set("limit", 0).path());
        let PageEnd { next_cursor } = loop {
            let answer = self.asked(call.clone()).await;
            if let Some(bad) = answer.as_ref().ok().and_then(bad_cursor) {
                return Err(bad.into());
            }
            match answer.and_then(read) {
                Err(failure) if patience.lasts_for(&failure) => patience.pause().await,
                page => break page?,
            }
        };
        let cursor: Cursor = next_cursor.parse()?;
        let call = Call::get(asked(&filter).path());
        let live = Live::follow(&self.http, call, Some(next_cursor));
        Ok(Following { cursor, live, refused: None })
    }
}

/// What is wrong with the cursor, if that is what the answer says.
fn bad_cursor(answer: &Answer) -> Option<BadCursor> {
    let problem: Problem = serde_json::from_slice(&answer.body).ok()?;
    match &*problem.code {
        "cursor_malformed" => Some(BadCursor::Malformed),
        "cursor_other_store" => Some(BadCursor::OtherStore),
        "cursor_expired" => {
            let oldest = problem.rejection?.get("oldest")?.as_str()?.parse().ok()?;
            Some(BadCursor::Expired { oldest })
        }
        _ => None,
    }
}

fn asked(filter: &EventFilter) -> Query {
    let words: Vec<&str> = filter.families.iter().map(|family| family.word()).collect();
    Query::new("/v1/events")
        .maybe("family", (!words.is_empty()).then(|| words.join(",")))
        .maybe("namespace", filter.namespace.as_ref())
        .maybe("lane", filter.lane.as_ref())
        .maybe("execution", filter.execution)
        .maybe("flow", filter.flow)
        .maybe("tag", filter.tag.as_ref().map(|(key, value)| format!("{key}={value}")))
}

impl Following {
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The next event; waits while the server is out of reach. Safe to drop and call again. Once it is refused, because the
    /// token was revoked or the place is too old by now, it stays so.
    pub async fn next(&mut self) -> Result<Seen, Error> {
        loop {
            if let Some(refused) = &self.refused {
                return Err(refused.clone().into());
            }
            let message = match self.live.next().await {
                Some(Ok(message)) => message,
                Some(Err(failure)) => {
                    self.refused = Some(failure);
                    continue;
                }
                None => return Err(Failure::ShuttingDown.into()),
            };
            let Some(cursor) = message.id.as_deref().and_then(|id| id.parse::<Cursor>().ok()) else {
                tracing::error!(id = message.id, "an event without its place");
                continue;
            };
            self.cursor = cursor.clone();
            if message.event == "interrupted" {
                tracing::warn!("events are interrupted: the server cannot read its store");
                continue;
            }
            // A message without data says only how far the log was looked through.
            if message.data.is_empty() {
                continue;
            }
            match serde_json::from_str::<EventRecord>(&message.data) {
                Ok(record) => return Ok(Seen { event: record.event, cursor }),
                Err(error) => tracing::error!(%error, "an event cannot be read"),
            }
        }
    }
}
