//! Handlers: functions from a context and an input to an outcome, with their types rubbed off.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ff_core::{Kind, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::submission::JSON_TYPE;
use crate::{Context, TaskFailure};

/// What a handler that did not fail says: done, or the rest later.
///
/// A handler that is always done returns its result as it is; one that may put the rest off returns this.
///
/// # Example
/// ```
/// use flowfabric::{Context, Outcome, TaskFailure};
/// use std::time::Duration;
///
/// async fn await_transfer(ctx: Context, transfer: u64) -> Result<Outcome<&'static str>, TaskFailure> {
///     if transfer % 2 == 1 {
///         // Gives the lease back; the same attempt goes on in a minute, and nothing is spent.
///         return Ok(ctx.delay(Duration::from_secs(60)));
///     }
///     Ok(Outcome::Done("arrived"))
/// }
/// # let _ = await_transfer;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    Done(T),
    /// Run it again after so long; it is the same attempt.
    Delay(Duration),
}

/// What a handler may return in its `Ok`: anything that becomes JSON, or an [`Outcome`] of it.
pub trait IntoOutcome {
    /// The result as it is stored; nothing for `null`.
    ///
    /// # Errors
    /// It cannot become JSON.
    fn into_outcome(self) -> Result<Outcome<Option<Payload>>, TaskFailure>;
}

impl<T: Serialize> IntoOutcome for T {
    fn into_outcome(self) -> Result<Outcome<Option<Payload>>, TaskFailure> {
        let bytes = serde_json::to_vec(&self).map_err(|error| {
            TaskFailure::fatal(format!("the result cannot become JSON: {error}")).code("bad_result")
        })?;
        // What is not stored costs nothing, and reads as `null`.
        let result =
            (bytes != b"null").then(|| Payload { content_type: JSON_TYPE.clone(), bytes: bytes.into() });
        Ok(Outcome::Done(result))
    }
}

impl<T: Serialize> IntoOutcome for Outcome<T> {
    fn into_outcome(self) -> Result<Outcome<Option<Payload>>, TaskFailure> {
        match self {
            Outcome::Done(result) => result.into_outcome(),
            Outcome::Delay(delay) => Ok(Outcome::Delay(delay)),
        }
    }
}

/// What becomes of an attempt.
pub(crate) type Conclusion = Result<Outcome<Option<Payload>>, TaskFailure>;

pub(crate) type Handling = Pin<Box<dyn Future<Output = Conclusion> + Send>>;

pub(crate) type Handler = Box<dyn Fn(Context, Payload) -> Handling + Send + Sync>;

/// Handlers by the kind they run.
pub(crate) type Handlers = HashMap<Kind, Handler>;

/// A handler whose input is read from JSON.
pub(crate) fn typed<In, Out, F, Fut>(handler: F) -> Handler
where
    In: DeserializeOwned,
    Out: IntoOutcome,
    F: Fn(Context, In) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Out, TaskFailure>> + Send + 'static,
{
    Box::new(move |context, input| match read(&input) {
        Ok(input) => {
            let handling = handler(context, input);
            Box::pin(async move { handling.await?.into_outcome() })
        }
        Err(failure) => Box::pin(std::future::ready(Err(failure))),
    })
}

/// A handler that takes and gives bytes.
pub(crate) fn raw<F, Fut>(handler: F) -> Handler
where
    F: Fn(Context, Payload) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome<Payload>, TaskFailure>> + Send + 'static,
{
    Box::new(move |context, input| {
        let handling = handler(context, input);
        Box::pin(async move {
            Ok(match handling.await? {
                Outcome::Done(result) => Outcome::Done(Some(result)),
                Outcome::Delay(delay) => Outcome::Delay(delay),
            })
        })
    })
}

/// No attempt mends an input that cannot be read, so this is fatal.
fn read<In: DeserializeOwned>(input: &Payload) -> Result<In, TaskFailure> {
    let bad = |problem: String| {
        let wanted = std::any::type_name::<In>();
        TaskFailure::fatal(format!("the input is not a {wanted}: {problem}")).code("bad_input")
    };
    let essence = input.content_type.split(';').next().unwrap_or_default().trim();
    if essence != ff_core::payload::JSON && !essence.ends_with("+json") {
        return Err(bad(format!("its content type is {essence:?}, not JSON")));
    }
    serde_json::from_slice(&input.bytes).map_err(|error| bad(error.to_string()))
}
