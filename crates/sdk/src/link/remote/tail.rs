//! The output of an execution as it is appended, over a connection that may break.

use std::collections::VecDeque;
use std::sync::Arc;

use ff_core::query::{FramePageAsk, Order};
use ff_core::state::AttemptOutcome;
use ff_core::stream::Frame;
use ff_core::{ExecutionId, PublicState, Rejection};
use ff_engine::{Failure, Output, Place};
use serde::Deserialize;

use super::Remote;
use super::http::Call;
use super::live::Live;
use super::query::Query;
use super::sse::Message;

/// How much is read at once.
const PAGE: usize = 512;
const PAGE_BYTES: usize = 1 << 20;

/// A reader of output: where it stands, and what comes.
#[derive(Debug)]
pub(crate) struct Reading {
    remote: Arc<Remote>,
    execution: ExecutionId,
    place: Place,
    /// What was read at once and not yet taken.
    buffer: VecDeque<Frame>,
    live: Option<Live>,
    over: bool,
}

#[derive(Deserialize)]
struct Closed {
    attempt: u32,
    outcome: AttemptOutcome,
}

#[derive(Deserialize)]
struct Ended {
    state: PublicState,
}

impl Reading {
    pub async fn start(
        remote: &Arc<Remote>,
        execution: ExecutionId,
        after: Option<Place>,
    ) -> Result<Reading, Failure> {
        if remote.get(execution).await?.is_none() {
            return Err(missing(execution));
        }
        let place = after.unwrap_or(Place { attempt: 1, number: 0 });
        let (remote, buffer) = (remote.clone(), VecDeque::new());
        Ok(Reading { remote, execution, place, buffer, live: None, over: false })
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// What comes next, as soon as it is there. Safe to drop and call again.
    pub async fn next(&mut self) -> Result<Option<Output>, Failure> {
        if self.over {
            return Ok(None);
        }
        if let Some(frame) = self.buffer.pop_front() {
            return Ok(Some(self.took(frame)));
        }
        loop {
            let live = self.live.get_or_insert_with(|| {
                let query = Query::new(format!("/v1/executions/{}/stream", self.execution));
                Live::follow(&self.remote.http, Call::get(query.path()), Some(self.place.to_string()))
            });
            match live.next().await {
                Some(Ok(message)) => {
                    if let Some(output) = self.read(&message)? {
                        return Ok(Some(output));
                    }
                }
                Some(Err(failure)) => {
                    self.live = None;
                    return Err(failure);
                }
                None => return Err(Failure::ShuttingDown),
            }
        }
    }

    fn read(&mut self, message: &Message) -> Result<Option<Output>, Failure> {
        let unreadable = |error: serde_json::Error| super::unreadable(&error);
        Ok(Some(match &*message.event {
            "frame" => {
                let frame: Frame = serde_json::from_str(&message.data).map_err(unreadable)?;
                self.took(frame)
            }
            "closed" => {
                let Closed { attempt, outcome } = serde_json::from_str(&message.data).map_err(unreadable)?;
                self.closed(attempt, outcome)
            }
            "ended" => {
                let Ended { state } = serde_json::from_str(&message.data).map_err(unreadable)?;
                self.ended(state)
            }
            _ => return Ok(None),
        }))
    }

    fn took(&mut self, frame: Frame) -> Output {
        self.place = Place { attempt: frame.attempt, number: frame.number };
        Output::Frame(frame)
    }

    fn closed(&mut self, attempt: u32, outcome: AttemptOutcome) -> Output {
        self.place = Place { attempt: attempt + 1, number: 0 };
        Output::Closed { attempt, outcome }
    }

    fn ended(&mut self, state: PublicState) -> Output {
        (self.over, self.live) = (true, None);
        Output::Ended(state)
    }

    /// What comes next of what is there now.
    pub async fn next_now(&mut self) -> Result<Option<Output>, Failure> {
        if self.over {
            return Ok(None);
        }
        // What was read ahead is read again, from the same place.
        self.live = None;
        if let Some(frame) = self.buffer.pop_front() {
            return Ok(Some(self.took(frame)));
        }
        // How the attempt stands is read first: what it appended before its end is then found.
        let Some(record) = self.remote.get(self.execution).await? else {
            return Err(missing(self.execution));
        };
        let Place { attempt, number: after } = self.place;
        let (execution, order, limit, bytes) = (self.execution, Order::OldestFirst, PAGE, PAGE_BYTES);
        self.buffer.extend(
            self.remote.frames(FramePageAsk { execution, attempt, order, after, limit, bytes }).await?,
        );
        if let Some(frame) = self.buffer.pop_front() {
            return Ok(Some(self.took(frame)));
        }
        let newest = record.attempt_number();
        if attempt <= newest {
            let attempts = self.remote.attempts(self.execution).await?;
            let known = attempts.iter().find(|it| it.number == attempt);
            let outcome = known.and_then(|it| it.end.as_ref()).map(|end| end.outcome);
            // An older attempt without a record has left nothing.
            let outcome = outcome.or((attempt < newest).then_some(AttemptOutcome::LeaseLost));
            if let Some(outcome) = outcome {
                return Ok(Some(self.closed(attempt, outcome)));
            }
        }
        Ok(record.end().map(|end| self.ended(end.state)))
    }
}

fn missing(id: ExecutionId) -> Failure {
    Failure::Rejected(Rejection::NotFound { what: "execution".into(), id: id.to_string() })
}
