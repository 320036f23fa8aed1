//! Durable parts of a handler: steps, sleeps, waits, waitpoints and children, whose outcome is recorded so that a
//! handler that is called again passes them.
//!
//! | part | does |
//! |---|---|
//! | `journal.rs` | what was recorded, what is called, and how the two differ |
//! | `step.rs` | runs a piece of work once and keeps its result |
//! | `sleep.rs` | gives the lease back for a while |
//! | `suspending.rs`, `signal_wait.rs` | give the lease back until something arrives |
//! | `waitpoint.rs` | opens a place for outsiders to signal at |
//! | `child.rs` | starts executions and waits for their end |

mod child;
mod journal;
mod signal_wait;
mod sleep;
mod step;
mod suspending;
mod waitpoint;

use std::time::Duration;

use ff_core::commands::NewStep;
use ff_core::rejection::Invalid;
use ff_core::step::{Step, StepKind, StepPlace};
use ff_core::{Command, Payload, Rejection, Reply};
use ff_engine::Failure;
use serde::de::DeserializeOwned;

pub use child::{Child, ChildCall, StartChild};
pub(crate) use journal::Journal;
pub use signal_wait::{OrTimeout, Received, WaitForSignal};
pub use step::{RetriedStep, StepCall};
pub use suspending::{Resumed, Suspending};
pub use waitpoint::{OpenWaitpoint, WaitpointBuilder};

use crate::submission::JSON_TYPE;
use crate::{Context, TaskFailure};

/// First and longest pause before a command of a running attempt is sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl Context {
    /// Sends commands of this attempt together until all of them are stored, for as long as the lease lives. Each
    /// can be repeated: a step replaces itself, a frame is appended once, a lease ends once.
    pub(crate) async fn store_all(&self, commands: Vec<Command>) -> Result<Vec<Reply>, TaskFailure> {
        let mut pause = PAUSE.0;
        loop {
            let results = self.fabric().link().execute_all(commands.clone()).await;
            match results.into_iter().collect::<Result<Vec<Reply>, Failure>>() {
                Ok(replies) => {
                    replies.iter().for_each(|reply| self.heed(reply));
                    return Ok(replies);
                }
                Err(Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown) => {}
                Err(failure) => return Err(self.refused(failure)),
            }
            // The worker drops a handler whose lease has run out meanwhile.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    pub(crate) async fn store(&self, command: impl Into<Command>) -> Result<Reply, TaskFailure> {
        let mut replies = self.store_all(vec![command.into()]).await?;
        replies.pop().ok_or_else(|| TaskFailure::retryable("the engine gave no answer").code("internal"))
    }

    /// Gives the lease back. The worker drops the handler as soon as that is stored; what is returned reaches only
    /// code that runs outside of it.
    pub(crate) async fn park(&self, commands: Vec<Command>) -> TaskFailure {
        // Steps that are under way end first, so that none of them is cut off in the middle and run again.
        let _turn = self.journal().turn.write().await;
        if let Err(failure) = self.flush().await {
            return failure;
        }
        if let Err(failure) = self.store_all(commands).await {
            return failure;
        }
        self.running().park();
        tokio::task::yield_now().await;
        TaskFailure::retryable("this attempt has given its lease back and goes on later").code("parked")
    }

    /// What a refusal means for the attempt. A lease that is lost ends it; no attempt mends what does not fit.
    pub(crate) fn refused(&self, failure: Failure) -> TaskFailure {
        match failure {
            Failure::Rejected(rejection) => {
                let lost = matches!(
                    rejection,
                    Rejection::LeaseLost { .. } | Rejection::AlreadyEnded { .. } | Rejection::Terminal { .. }
                );
                if lost {
                    self.running().lose();
                    return TaskFailure::retryable(&rejection).code(rejection.code());
                }
                TaskFailure::fatal(&rejection).code(rejection.code())
            }
            failure => TaskFailure::retryable(failure).code("internal"),
        }
    }

    /// Waits on the clock of the fabric, under the lease.
    async fn pause(&self, pause: Duration) {
        let time = self.fabric().time();
        let until = time.now().saturating_add(crate::time::ms(pause));
        time.alarm().until(until).await;
    }
}

/// Reads what a step recorded.
fn read<T: DeserializeOwned>(step: &Step) -> Result<T, TaskFailure> {
    serde_json::from_slice(&step.result.bytes).map_err(|error| {
        let (key, wanted) = (&step.key, std::any::type_name::<T>());
        let problem = format!("the recorded result of step {key} is not a {wanted}: {error}");
        TaskFailure::fatal(problem).code("bad_step_result")
    })
}

fn json(bytes: Vec<u8>) -> Payload {
    Payload { content_type: JSON_TYPE.clone(), bytes: bytes.into() }
}

fn new_step(place: StepPlace, kind: StepKind, took: Duration, bytes: Vec<u8>) -> NewStep {
    NewStep { place, kind, took_ms: crate::time::ms(took), result: json(bytes) }
}

fn unfit(invalid: Invalid) -> TaskFailure {
    TaskFailure::fatal(invalid).code("invalid")
}

fn odd(reply: &Reply) -> TaskFailure {
    TaskFailure::retryable(format!("the engine gave an answer to another question: {reply:?}"))
        .code("internal")
}
