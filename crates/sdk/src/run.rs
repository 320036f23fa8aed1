//! A handle on one execution.

use std::sync::Arc;
use std::time::Duration;

use ff_core::attempt::Attempt;
use ff_core::{Execution, ExecutionId, PublicState};
use ff_engine::Ended;
use ff_engine::explain::Explanation;
use serde::de::DeserializeOwned;

use crate::error::NotCompleted;
use crate::events::Watch;
use crate::operation::{Cancelled, Operation};
use crate::{Error, Fabric};

/// An execution that was submitted, or that is known by its id.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("double", &21).await?;
///
/// let worker = Worker::new(&fabric).on("double", |_: Context, n: u64| async move { Ok(n * 2) });
/// let mut doubled = 0;
/// worker.run_until(async { doubled = run.result::<u64>().await.unwrap() }).await?;
/// assert_eq!(doubled, 42);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    fabric: Fabric,
    id: ExecutionId,
    existing: bool,
}

impl Run {
    pub(crate) fn new(fabric: Fabric, id: ExecutionId, existing: bool) -> Run {
        Run { fabric, id, existing }
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Whether it was there before: found by its idempotency key, by its id, or looked up.
    pub fn existing(&self) -> bool {
        self.existing
    }

    /// Waits until it has completed and reads its result.
    ///
    /// # Errors
    /// [`Error::NotCompleted`] if it ended in any other way; [`Error::UnexpectedResult`] if the result is not
    /// a `T`.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        result_of(&self.wait().await?)
    }

    /// Waits until it has ended, however that may be.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn wait(&self) -> Result<Ended, Error> {
        self.fabric.wait(self.id).await
    }

    /// The execution as it is stored now.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn get(&self) -> Result<Arc<Execution>, Error> {
        self.fabric.get(self.id).await
    }

    /// All attempts, oldest first.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn attempts(&self) -> Result<Vec<Attempt>, Error> {
        self.fabric.attempts(self.id).await
    }

    /// Why it does or does not run.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn explain(&self) -> Result<Explanation, Error> {
        self.fabric.explain(self.id).await
    }

    /// Its states, one after the other, until it ends.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn watch(&self) -> Result<Watch, Error> {
        self.fabric.watch(self.id).await
    }

    /// Cancels it; see [`Fabric::cancel`].
    pub fn cancel(&self) -> Operation<Cancelled> {
        self.fabric.cancel(self.id)
    }

    /// Cancels it and leaves a running worker so long to end by itself.
    pub fn cancel_within(&self, grace: Duration) -> Operation<Cancelled> {
        self.fabric.cancel(self.id).grace(grace)
    }

    /// Runs it again after it has ended; see [`Fabric::replay`].
    pub fn replay(&self) -> Operation<Arc<Execution>> {
        self.fabric.replay(self.id)
    }
}

/// Reads the result of an execution that has ended.
///
/// # Errors
/// As [`Run::result`].
pub fn result_of<T: DeserializeOwned>(ended: &Ended) -> Result<T, Error> {
    let execution = &ended.execution;
    let Some(end) = execution.end().filter(|end| end.state == PublicState::Completed) else {
        let (state, reason) = (execution.public_state(), execution.reason());
        let error = execution.end().and_then(|end| end.error.clone());
        let ending = NotCompleted { execution: execution.id, state, reason, error };
        return Err(Error::NotCompleted(Box::new(ending)));
    };
    debug_assert!(end.result_bytes.is_none() || ended.result.is_some(), "a stored result is always read");
    let bytes = ended.result.as_ref().map_or(&b"null"[..], |result| &result.bytes);
    serde_json::from_slice(bytes).map_err(|error| Error::UnexpectedResult {
        execution: execution.id,
        wanted: std::any::type_name::<T>(),
        problem: error.to_string(),
    })
}
