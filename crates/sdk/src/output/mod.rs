//! Output of a running attempt: frames that are gathered while others are on their way, and appended in order.
//!
//! A frame leaves at once if nothing is on its way, and together with those that came meanwhile otherwise. Each call
//! says the number of its first frame, so that one whose answer was lost can be sent again.

mod emitting;
mod reading;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::commands::{Append, NewFrame};
use ff_core::{Execution, Rejection, Reply};
use ff_engine::Failure;
use tokio::sync::Notify;

pub use reading::Frames;

use crate::worker::running::Running;
use crate::{Fabric, TaskFailure};

/// How much one call takes along.
const BATCH_BYTES: usize = 256 << 10;
/// How much may wait before whoever emits has to wait, too.
const WAITING: (usize, usize) = (2_000, 1 << 20);
/// First and longest pause before frames are sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

pub(crate) struct Output {
    fabric: Fabric,
    running: Arc<Running>,
    /// Whether frames of this execution are there already; their numbers go on.
    streamed: bool,
    state: Mutex<State>,
    /// Set while a task sends frames.
    sending: AtomicBool,
    /// Something was appended or refused.
    moved: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<NewFrame>,
    bytes: usize,
    /// The number of the first frame that waits; absent until it is known.
    first: Option<u64>,
    /// How many were taken over since the start, and how many of them are stored or refused.
    taken: u64,
    settled: u64,
    /// Why frames were refused, until somebody is told.
    problem: Option<TaskFailure>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("fence", &self.running.fence()).finish_non_exhaustive()
    }
}

impl Output {
    pub fn new(fabric: &Fabric, execution: &Execution, running: Arc<Running>) -> Output {
        let streamed = execution.live.streamed;
        let first = (!streamed).then_some(1);
        Output {
            fabric: fabric.clone(),
            running,
            streamed,
            state: Mutex::new(State { first, ..State::default() }),
            sending: AtomicBool::new(false),
            moved: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame over; waits while too much is waiting.
    pub async fn push(self: &Arc<Self>, frame: NewFrame) -> Result<(), TaskFailure> {
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.state();
                if let Some(problem) = state.problem.take() {
                    return Err(problem);
                }
                let room = state.waiting.len() < WAITING.0 && state.bytes < WAITING.1;
                if room {
                    state.bytes += frame.bytes.len();
                    state.taken += 1;
                    state.waiting.push(frame);
                    break;
                }
            }
            moved.await;
        }
        self.send_soon();
        Ok(())
    }

    /// Waits until everything taken over so far is stored.
    pub async fn flush(self: &Arc<Self>) -> Result<(), TaskFailure> {
        let until = self.state().taken;
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.state();
                if state.settled >= until {
                    return state.problem.take().map_or(Ok(()), Err);
                }
            }
            moved.await;
        }
    }

    /// Starts a task that sends frames, unless there is one.
    fn send_soon(self: &Arc<Self>) {
        if !self.sending.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.clone().send_all());
        }
    }

    /// Sends what waits, and what has come meanwhile, until nothing is left or the lease is gone.
    async fn send_all(self: Arc<Self>) {
        loop {
            if let Err(failure) = self.learn_first().await {
                self.refuse_all(&failure);
            }
            while let Some(batch) = self.next_batch() {
                self.append(batch).await;
            }
            self.sending.store(false, Ordering::SeqCst);
            // One that came between the two lines above has found a task at work.
            if self.state().waiting.is_empty() || self.sending.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// An attempt that goes on after a suspension goes on counting.
    async fn learn_first(&self) -> Result<(), TaskFailure> {
        if !self.streamed || self.state().first.is_some() {
            return Ok(());
        }
        let fence = self.running.fence();
        let stream = self.fabric.retried(|| self.fabric.link().stream(fence.execution)).await?;
        let own = stream.filter(|stream| stream.attempt == fence.attempt);
        self.state().first = Some(own.map_or(1, |stream| stream.next));
        Ok(())
    }

    fn next_batch(&self) -> Option<Append> {
        let mut state = self.state();
        let first = state.first.filter(|_| !state.waiting.is_empty())?;
        let (mut count, mut bytes) = (0, 0);
        for frame in state.waiting.iter().take(self.fabric.limits().frames_max) {
            bytes += frame.bytes.len();
            if count > 0 && bytes > BATCH_BYTES {
                break;
            }
            count += 1;
        }
        let frames: Vec<NewFrame> = state.waiting.drain(..count).collect();
        state.bytes -= frames.iter().map(|it| it.bytes.len()).sum::<usize>();
        Some(Append { fence: self.running.fence(), first, frames })
    }

    /// Appends a batch; one that is refused is taken apart until the guilty frame is alone, which is left out.
    async fn append(&self, batch: Append) {
        let mut parts = vec![batch.frames];
        while let Some(mut frames) = parts.pop() {
            let first = self.state().first.unwrap_or(1);
            match self.send(Append { fence: batch.fence, first, frames: frames.clone() }).await {
                Ok(next) => self.settle(frames.len(), Some(next), None),
                Err(Failure::Rejected(Rejection::Invalid(_))) if frames.len() > 1 => {
                    let rest = frames.split_off(frames.len() / 2);
                    parts.push(rest);
                    parts.push(frames);
                }
                Err(failure) => {
                    if let Failure::Rejected(Rejection::LeaseLost { .. }) = failure {
                        self.running.lose();
                    }
                    let code = match &failure {
                        Failure::Rejected(rejection) => rejection.code(),
                        _ => "internal",
                    };
                    let problem = TaskFailure::fatal(format!("output was refused: {failure}")).code(code);
                    self.settle(frames.len(), None, Some(problem));
                }
            }
        }
    }

    async fn send(&self, append: Append) -> Result<u64, Failure> {
        let mut pause = PAUSE.0;
        loop {
            match self.fabric.link().execute(append.clone()).await {
                Ok(Reply::Appended { next, cancel }) => {
                    if cancel.is_some() {
                        self.running.request_cancel();
                    }
                    return Ok(next);
                }
                Ok(reply) => {
                    return Err(Failure::Internal(format!("an answer to another question: {reply:?}")));
                }
                Err(Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown)
                    if !self.running.is_over() => {}
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn settle(&self, count: usize, next: Option<u64>, problem: Option<TaskFailure>) {
        {
            let mut state = self.state();
            state.settled += count as u64;
            state.first = next.or(state.first);
            state.problem = state.problem.take().or(problem);
        }
        self.moved.notify_waiters();
    }

    fn refuse_all(&self, problem: &TaskFailure) {
        let count = {
            let mut state = self.state();
            state.bytes = 0;
            std::mem::take(&mut state.waiting).len()
        };
        self.settle(count, None, Some(problem.clone()));
    }
}
