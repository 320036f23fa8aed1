//! Steps: pieces of work whose result is kept, so that they are not run again.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use ff_core::commands::{Drift, RecordSteps};
use ff_core::policy::Backoff;
use ff_core::step::StepKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::journal::{Call, INSIDE};
use super::{new_step, read};
use crate::{Context, TaskFailure};

impl Context {
    /// Runs a piece of work once: its result is stored before it is returned here, and whoever runs this handler
    /// again, after a failure, a lost lease, a suspension or a replay, gets the stored result instead.
    ///
    /// Steps are told apart by their name and, where a name repeats, by the order in which they are called. What a
    /// step does between its start and the storing of its result may happen twice if the worker dies in between:
    /// give what it calls a key of its own, such as the execution's id and the step's name.
    ///
    /// A step that fails fails the attempt when its error is passed on with `?`; see
    /// [`attempts`](StepCall::attempts) for tries of its own. Steps may run side by side (`tokio::join!`), and may
    /// not be called inside another step.
    ///
    /// # Errors
    /// What the work fails with; `bad_step_result` if what was recorded is not a `T`, or what came out cannot be
    /// stored.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Context, Worker};
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let worker = Worker::new(&fabric).on("order", |ctx: Context, item: String| async move {
    ///     let price: u64 = ctx.step("price", || async { Ok(item.len() as u64) }).await?;
    ///     let receipt: String = ctx.step("charge", || async move { Ok(format!("{price} paid")) }).attempts(3).await?;
    ///     Ok(receipt)
    /// });
    /// let run = fabric.submit("order", &"apple").await?;
    /// worker.run_until(async { assert_eq!(run.result::<String>().await.unwrap(), "5 paid") }).await?;
    /// # Ok(()) }
    /// ```
    pub fn step<'a, F>(&'a self, name: &'a str, work: F) -> StepCall<'a, F> {
        StepCall { ctx: self, name, work }
    }
}

/// A step to be run, which is run when it is awaited.
#[must_use = "a step is run when it is awaited"]
pub struct StepCall<'a, F> {
    ctx: &'a Context,
    name: &'a str,
    work: F,
}

impl<F> std::fmt::Debug for StepCall<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepCall").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, F> StepCall<'a, F> {
    /// How often the step is tried at most within this attempt, with pauses in between that keep the lease. A fatal
    /// failure is not tried again. The work is a closure that can be called more than once.
    pub fn attempts(self, count: u32) -> RetriedStep<'a, F> {
        RetriedStep { call: self, attempts: count.max(1), backoff: Backoff::default() }
    }
}

/// A step with tries of its own.
#[must_use = "a step is run when it is awaited"]
#[derive(Debug)]
pub struct RetriedStep<'a, F> {
    call: StepCall<'a, F>,
    attempts: u32,
    backoff: Backoff,
}

impl<F> RetriedStep<'_, F> {
    /// The pauses between tries. What a failure asks for with `RetryAfter` goes first.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

impl<'a, T, F, Fut> IntoFuture for StepCall<'a, F>
where
    T: Serialize + DeserializeOwned + Send + 'a,
    F: FnOnce() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, TaskFailure>> + Send + 'a,
{
    type Output = Result<T, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let StepCall { ctx, name, work } = self;
        Box::pin(once(ctx, name, async move { work().await }))
    }
}

impl<'a, T, F, Fut> IntoFuture for RetriedStep<'a, F>
where
    T: Serialize + DeserializeOwned + Send + 'a,
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, TaskFailure>> + Send + 'a,
{
    type Output = Result<T, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let RetriedStep { call: StepCall { ctx, name, mut work }, attempts, backoff } = self;
        Box::pin(async move {
            let mut failures = 0;
            let tries = async {
                loop {
                    let failure = match work().await {
                        Err(failure) if !failure.is_fatal() && failures + 1 < attempts => failure,
                        result => return result,
                    };
                    failures += 1;
                    tracing::debug!(step = name, failures, %failure, "a step is tried again");
                    let backoff_ms = backoff.delay_ms(failures, ctx.fabric().link().random());
                    let backoff = Duration::from_millis(backoff_ms.unsigned_abs());
                    ctx.pause(failure.retry_after.unwrap_or(backoff)).await;
                }
            };
            once(ctx, name, tries).await
        })
    }
}

/// Gives the recorded result, or runs the work and records what it came to.
async fn once<T: Serialize + DeserializeOwned>(
    ctx: &Context,
    name: &str,
    work: impl Future<Output = Result<T, TaskFailure>>,
) -> Result<T, TaskFailure> {
    let Call { place, recorded } = ctx.journal().call(name, StepKind::Run)?;
    if let Some(step) = recorded {
        return read(step);
    }
    let _turn = ctx.journal().turn.read().await;
    let started = Instant::now();
    let result = INSIDE.scope(place.key.name.clone(), work).await?;
    let bytes = serde_json::to_vec(&result).map_err(|error| {
        let problem = format!("the result of step {} cannot become JSON: {error}", place.key);
        TaskFailure::fatal(problem).code("bad_step_result")
    })?;
    let steps = vec![new_step(place, StepKind::Run, started.elapsed(), bytes)];
    ctx.store(RecordSteps { fence: ctx.running().fence(), steps, drift: Drift::default() }).await?;
    Ok(result)
}
