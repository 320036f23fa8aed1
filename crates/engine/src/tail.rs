//! The output of an execution as it is appended, attempt after attempt, from any place on.
//!
//! A reader is always served from the store; a slow one costs nothing but its place.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ff_core::query::{FramePageAsk, Order};
use ff_core::state::AttemptOutcome;
use ff_core::stream::Frame;
use ff_core::{ExecutionId, PublicState, Rejection};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::failure::Failure;

/// How much is read at once.
const PAGE: usize = 512;
const PAGE_BYTES: usize = 1 << 20;

/// Who waits for the output of which executions here.
#[derive(Debug, Default)]
pub(crate) struct Tails(Mutex<FxHashMap<ExecutionId, (usize, Arc<Notify>)>>);

impl Tails {
    fn enter(&self, id: ExecutionId) -> Arc<Notify> {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, notify) = tails.entry(id).or_default();
        *count += 1;
        notify.clone()
    }

    fn leave(&self, id: ExecutionId) {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = tails.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                tails.remove(&id);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// These may have new output; all of them if it is not known which.
    pub fn wake(&self, ids: Option<impl Iterator<Item = ExecutionId>>) {
        let tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ids {
            Some(ids) => {
                ids.filter_map(|id| tails.get(&id)).for_each(|(_, notify)| notify.notify_waiters());
            }
            None => tails.values().for_each(|(_, notify)| notify.notify_waiters()),
        }
    }
}

/// A place in the output of an execution: right after a frame of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub attempt: u32,
    /// 0: before the first frame of the attempt.
    pub number: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.attempt, self.number)
    }
}

/// The text is no place in an output stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a place in an output stream: expected ATTEMPT:NUMBER such as 1:42")]
pub struct BadPlace(pub String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let bad = || BadPlace(text.chars().take(80).collect());
        let (attempt, number) = text.split_once(':').ok_or_else(bad)?;
        let attempt = attempt.parse().map_err(|_| bad())?;
        Ok(Place { attempt, number: number.parse().map_err(|_| bad())? })
    }
}

/// What a reader of an output stream receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Frame(Frame),
    /// The stream of an attempt is closed: the attempt has ended in this way.
    Closed {
        attempt: u32,
        outcome: AttemptOutcome,
    },
    /// The execution has ended; nothing follows.
    Ended(PublicState),
}

/// Reads the output of one execution as it is appended.
#[derive(Debug)]
pub struct Tail {
    engine: Engine,
    execution: ExecutionId,
    notify: Arc<Notify>,
    place: Place,
    buffer: VecDeque<Frame>,
    over: bool,
}

impl Engine {
    /// Follows the output of an execution from a place on: from its beginning if it is not given.
    pub async fn tail(&self, execution: ExecutionId, after: Option<Place>) -> Result<Tail, Failure> {
        let Some(record) = self.get(execution).await? else {
            let id = execution.to_string();
            return Err(Rejection::NotFound { what: "execution".into(), id }.into());
        };
        let place = after.unwrap_or(Place { attempt: 1, number: 0 });
        // The one after the newest is the next that will begin.
        if place.attempt == 0 || place.attempt > record.attempt_number().saturating_add(1) {
            return Err(no_attempt(execution, place.attempt));
        }
        let notify = self.shared().tails.enter(execution);
        self.shared().subscribers.fetch_add(1, Ordering::SeqCst);
        // Other processes' commits are looked for while somebody waits.
        self.nudge().await;
        Ok(Tail { engine: self.clone(), execution, notify, place, buffer: VecDeque::new(), over: false })
    }
}

impl Tail {
    /// The place right after everything received so far.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What comes next, as soon as it is there; nothing after the end of the execution. Safe to drop and call again.
    pub async fn next(&mut self) -> Result<Option<Output>, Failure> {
        self.read(Patience::Wait).await
    }

    /// What comes next of what is there now; nothing if all of it was read.
    pub async fn next_now(&mut self) -> Result<Option<Output>, Failure> {
        self.read(Patience::None).await
    }

    async fn read(&mut self, patience: Patience) -> Result<Option<Output>, Failure> {
        if self.over {
            return Ok(None);
        }
        loop {
            if let Some(frame) = self.buffer.pop_front() {
                self.place = Place { attempt: frame.attempt, number: frame.number };
                return Ok(Some(Output::Frame(frame)));
            }
            // Ask to be woken before looking, so that nothing falls between.
            let notify = self.notify.clone();
            let changed = notify.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // How the attempt stands is read first: what it appended before its end is then found.
            let Some(record) = self.engine.get(self.execution).await? else {
                let id = self.execution.to_string();
                return Err(Rejection::NotFound { what: "execution".into(), id }.into());
            };
            let ask = FramePageAsk {
                execution: self.execution,
                attempt: self.place.attempt,
                order: Order::OldestFirst,
                after: self.place.number,
                limit: PAGE,
                bytes: PAGE_BYTES,
            };
            self.buffer.extend(self.engine.frames(ask).await?);
            if !self.buffer.is_empty() {
                continue;
            }
            let newest = record.attempt_number();
            let attempt = self.place.attempt;
            let ended = match record.live.attempt.as_ref().filter(|it| it.number == attempt) {
                Some(current) => current.end.as_ref().map(|end| end.outcome),
                None if attempt < newest => {
                    let archived = self.engine.store().attempts(self.execution).await;
                    let archived = archived.map_err(crate::engine::unavailable)?;
                    let found = archived.iter().find(|it| it.number == attempt);
                    let Some(end) = found.and_then(|it| it.end.as_ref()) else {
                        return Err(no_attempt(self.execution, attempt));
                    };
                    Some(end.outcome)
                }
                None => None,
            };
            if let Some(outcome) = ended {
                self.place = Place { attempt: attempt + 1, number: 0 };
                return Ok(Some(Output::Closed { attempt, outcome }));
            }
            if let Some(end) = record.end() {
                self.over = true;
                return Ok(Some(Output::Ended(end.state)));
            }
            if patience == Patience::None {
                return Ok(None);
            }
            changed.await;
        }
    }
}

fn no_attempt(execution: ExecutionId, attempt: u32) -> Failure {
    Rejection::NotFound { what: "attempt".into(), id: format!("{attempt} of {execution}") }.into()
}

/// Whether a reader waits for what is not there yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    None,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.engine.shared().subscribers.fetch_sub(1, Ordering::SeqCst);
        self.engine.shared().tails.leave(self.execution);
    }
}
