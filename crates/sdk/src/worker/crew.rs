//! What a worker's parts share: what it runs, how much room there is, and how an attempt is run and ended.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ff_core::commands::{Complete, Delay, Drift, Fail, RecordSteps, Release};
use ff_core::execution::Fence;
use ff_core::{Command, ExecutionId, InstanceId, Ms, Rejection};
use ff_engine::{Failure, Task};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, watch};
use tracing::Instrument;

use super::running::Running;
use crate::context::Data;
use crate::durable::Journal;
use crate::handler::{Conclusion, Handlers, Handling, Outcome};
use crate::time::{Asking, ms};
use crate::{Context, Expansion, Fabric, TaskFailure};

/// How many ended attempts may wait for their ending to be stored before no more work is taken.
const ENDING_MAX: usize = 1_024;
/// How often an ending that meets a defect of the engine is tried.
const DEFECTS_MAX: u32 = 3;
/// First and longest pause before an ending is sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// What the keeper of the leases tells the one who asks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Work(InstanceId),
    /// This instance is no longer known as alive.
    Register(InstanceId),
    /// An operator drains this instance.
    Drain(InstanceId),
    Stop,
}

pub(crate) struct Crew {
    pub fabric: Fabric,
    pub handlers: Handlers,
    pub data: Arc<Data>,
    pub concurrency: usize,
    pub orders: watch::Sender<Order>,
    // A std mutex: it is held for a few instructions and never across an await.
    running: Mutex<FxHashMap<ExecutionId, Arc<Running>>>,
    /// Handlers at work, and ended ones whose ending is not stored yet.
    working: AtomicUsize,
    ending: AtomicUsize,
    /// Somebody has ended.
    pub freed: Notify,
    /// When the keeper looks next, and how it is told to look earlier.
    pub keeper_wakes_at: AtomicI64,
    pub keeper: Notify,
    /// What it was told and has not acted on.
    pub keeper_told: Mutex<Option<Asking>>,
}

impl Crew {
    pub fn new(
        fabric: Fabric,
        handlers: Handlers,
        data: Data,
        concurrency: usize,
        instance: InstanceId,
    ) -> Crew {
        Crew {
            fabric,
            handlers,
            data: Arc::new(data),
            concurrency,
            orders: watch::Sender::new(Order::Work(instance)),
            running: Mutex::default(),
            working: AtomicUsize::new(0),
            ending: AtomicUsize::new(0),
            freed: Notify::new(),
            keeper_wakes_at: AtomicI64::new(Ms::MAX),
            keeper: Notify::new(),
            keeper_told: Mutex::default(),
        }
    }

    pub fn running(&self) -> MutexGuard<'_, FxHashMap<ExecutionId, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more it may take.
    pub fn free(&self) -> usize {
        if self.ending.load(Ordering::Acquire) >= ENDING_MAX {
            return 0;
        }
        self.concurrency.saturating_sub(self.working.load(Ordering::Acquire))
    }

    pub fn is_empty(&self) -> bool {
        self.running().is_empty()
    }

    /// Runs what was claimed, one task of the runtime each.
    pub fn take_on(self: &Arc<Self>, tasks: Vec<Task>, granted_at: Ms) {
        let mut wake_at = Ms::MAX;
        let mut started = Vec::with_capacity(tasks.len());
        {
            let mut all = self.running();
            for task in tasks {
                let running = Arc::new(Running::new(&task.execution, granted_at));
                wake_at = wake_at.min(running.renew_at());
                // Only a lease that was lost meanwhile can have been there.
                if let Some(before) = all.insert(task.execution.id, running.clone()) {
                    before.lose();
                }
                started.push((task, running));
            }
        }
        self.working.fetch_add(started.len(), Ordering::AcqRel);
        if wake_at < self.keeper_wakes_at.load(Ordering::Acquire) {
            *self.keeper_told.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(self.fabric.time().asking());
            self.keeper.notify_one();
        }
        for (task, running) in started {
            let place = Place { crew: self.clone(), fence: running.fence(), at_work: true };
            tokio::spawn(run(place, task, running));
        }
    }

    /// Stores how an attempt ended; tried again as long as the lease lives.
    async fn end(&self, running: &Running, conclusion: Conclusion, expansion: Option<&Expansion>) {
        let link = self.fabric.link();
        let mut command = self.ending(running.fence(), conclusion, expansion);
        let (mut pause, mut defects) = (PAUSE.0, 0);
        loop {
            let failure = match link.execute(command.clone()).await {
                Ok(_) => return,
                Err(failure) => failure,
            };
            match failure {
                Failure::Rejected(Rejection::Invalid(invalid)) => {
                    // Such as a result that is too large. What was wrong is itself the ending.
                    let failure = TaskFailure::fatal(invalid).code("bad_result");
                    command = self.ending(running.fence(), Err(failure), None);
                    defects += 1;
                }
                Failure::Rejected(rejection) if refuses_expansion(&command, &rejection) => {
                    let failure = TaskFailure::fatal(&rejection).code(rejection.code());
                    command = self.ending(running.fence(), Err(failure), None);
                }
                Failure::Rejected(rejection) => {
                    tracing::debug!(%rejection, "an ending came too late");
                    return running.lose();
                }
                Failure::Refused { code: "too_large", detail } if defects == 0 => {
                    // Nobody on the way to the store takes it, however often it is made.
                    let failure = TaskFailure::fatal(detail).code("bad_result");
                    command = self.ending(running.fence(), Err(failure), None);
                    defects += 1;
                }
                Failure::Refused { detail, .. } => {
                    tracing::error!(%detail, "an ending was refused");
                    return running.lose();
                }
                Failure::ShuttingDown => return running.lose(),
                Failure::Internal(error) => {
                    tracing::error!(%error, "an ending could not be stored");
                    defects += 1;
                }
                Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown => {}
            }
            if defects >= DEFECTS_MAX {
                return running.lose();
            }
            tokio::select! {
                () = running.over() => return,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
            }
        }
    }

    /// Nothing is stored for a lease that is lost. One that only ran out here may have been renewed by a call
    /// whose answer did not come; it goes back, so that nobody waits for its end.
    async fn give_up(&self, running: &Running) {
        let fence = running.fence();
        tracing::debug!(execution = %fence.execution, "stopped: the lease is lost");
        if running.may_be_held() {
            let _ = self.fabric.link().execute(Release::new(fence)).await;
        }
    }

    fn ending(&self, fence: Fence, conclusion: Conclusion, expansion: Option<&Expansion>) -> Command {
        match conclusion {
            Ok(Outcome::Done(result)) => {
                let more = expansion.map(|it| it.finish(fence, result.clone())).transpose();
                match more.map(Option::flatten) {
                    Ok(None) => Complete { fence, result }.into(),
                    Ok(Some(expand)) => expand.into(),
                    Err(error) => {
                        let failure = TaskFailure::fatal(error).code("bad_expansion");
                        self.ending(fence, Err(failure), None)
                    }
                }
            }
            Ok(Outcome::Delay(delay)) => Delay::new(fence, ms(delay)).into(),
            Err(failure) => {
                let TaskFailure { error, retry_after } = failure.fitted(self.fabric.limits().error_bytes_max);
                let retry_after_ms = retry_after.map(ms);
                Fail { fence, error, retry_after_ms, seed: self.fabric.link().random() }.into()
            }
        }
    }
}

/// A claimed execution's place in the crew; given up in any case, also by a handler that panics while it is
/// dropped.
struct Place {
    crew: Arc<Crew>,
    fence: Fence,
    at_work: bool,
}

impl Place {
    /// The handler is done; there is room for another.
    fn stop_working(&mut self) {
        if std::mem::take(&mut self.at_work) {
            self.crew.ending.fetch_add(1, Ordering::AcqRel);
            self.crew.working.fetch_sub(1, Ordering::AcqRel);
            self.crew.freed.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop_working();
        self.crew.ending.fetch_sub(1, Ordering::AcqRel);
        {
            let mut all = self.crew.running();
            let is_mine = |running: &Arc<Running>| running.fence() == self.fence;
            if all.get(&self.fence.execution).is_some_and(is_mine) {
                all.remove(&self.fence.execution);
            }
        }
        self.crew.freed.notify_one();
    }
}

/// Runs one attempt from its claim to its ending.
async fn run(mut place: Place, task: Task, running: Arc<Running>) {
    let crew = place.crew.clone();
    let Task { execution, input, steps, signals } = task;
    let journal = Journal::new(steps, signals);
    let (fabric, data) = (crew.fabric.clone(), crew.data.clone());
    let context = Context::new(fabric, execution.clone(), running.clone(), data, journal);
    let conclusion = {
        let context = context.clone();
        let handling = guarded(|| match crew.handlers.get(&execution.spec.kind) {
            Some(handler) => handler(context, input),
            None => Box::pin(std::future::ready(Err(unknown_kind(&execution.spec.kind)))),
        });
        let (kind, attempt) = (&*execution.spec.kind, execution.attempt_number());
        let flow = execution.flow().map(tracing::field::display);
        let span = tracing::info_span!("attempt", execution = %execution.id, kind, attempt, flow);
        tokio::select! {
            biased;
            conclusion = handling.instrument(span) => Some(conclusion),
            () = running.over() => None,
        }
    };
    place.stop_working();
    match conclusion {
        // Whatever a handler says that has given its lease back, it says again when it goes on.
        _ if running.is_parked() => {}
        Some(conclusion) => {
            tokio::select! {
                biased;
                () = conclude(&context, &conclusion) => {}
                () = running.over() => return crew.give_up(&running).await,
            }
            crew.end(&running, conclusion, context.expansion()).await;
        }
        None => crew.give_up(&running).await,
    }
}

/// Stores what belongs before the ending: output that is still here, and how the steps differ from those recorded.
async fn conclude(context: &Context, conclusion: &Conclusion) {
    if let Err(failure) = context.flush().await {
        tracing::warn!(execution = %context.id(), %failure, "output was not stored");
    }
    let completed = match conclusion {
        Ok(Outcome::Done(_)) => true,
        // It goes on later, and is told once, when it ends.
        Ok(_) => return,
        Err(_) => false,
    };
    let drift = context.journal().drift(completed);
    if drift.is_empty() {
        return;
    }
    let Drift { missing, extra, reordered } = &drift;
    let id = context.id();
    tracing::warn!(execution = %id, ?missing, ?extra, ?reordered, "the steps called are not those recorded");
    let (fence, steps) = (context.running().fence(), Vec::new());
    if let Err(failure) = context.store(RecordSteps { fence, steps, drift }).await {
        tracing::debug!(execution = %context.id(), %failure, "the difference of the steps was not stored");
    }
}

/// Whether it is what the handler added to its flow that is refused, and not its ending.
fn refuses_expansion(command: &Command, rejection: &Rejection) -> bool {
    let ending = matches!(
        rejection,
        Rejection::LeaseLost { .. } | Rejection::AlreadyEnded { .. } | Rejection::Terminal { .. }
    );
    matches!(command, Command::Expand(_)) && !ending
}

/// Polls name their kinds, so only a defect hands out another one.
fn unknown_kind(kind: &str) -> TaskFailure {
    TaskFailure::retryable(format!("this worker has no handler for {kind}")).code("unknown_kind")
}

/// Runs a handler and makes a panic, in the function or in its future, a failure like any other.
async fn guarded(start: impl FnOnce() -> Handling) -> Conclusion {
    let mut handling = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(handling) => handling,
        Err(panic) => return Err(panicked(&*panic)),
    };
    std::future::poll_fn(move |waker| {
        let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(waker)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> TaskFailure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    TaskFailure::retryable(text.unwrap_or_else(|| "the handler panicked".to_owned())).code("panic")
}
