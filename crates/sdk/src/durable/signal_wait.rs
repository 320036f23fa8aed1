//! Waiting for one signal.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use ff_core::Ms;
use ff_core::name::SignalName;
use ff_core::state::Reason;
use ff_core::suspension::{Condition, OnTimeout, ResumedBy, Signal};
use serde::de::DeserializeOwned;

use super::suspending::Suspending;
use super::unfit;
use crate::{Context, TaskFailure};

/// A signal that was waited for, with what it carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Received<T> {
    /// From 1, in the order in which signals arrived for this execution.
    pub number: u32,
    pub name: Option<SignalName>,
    /// Who sent it, as the sender says.
    pub source: Option<Box<str>>,
    pub correlation: Option<Box<str>>,
    /// When it arrived, in milliseconds since the Unix epoch.
    pub at: Ms,
    pub payload: T,
}

impl Context {
    /// Waits for a signal of this name without holding a worker, and returns it with what it carries. A signal that
    /// came before counts; each is handed out once, oldest first. What happens to the handler is told at
    /// [`suspend`](Context::suspend).
    ///
    /// # Errors
    /// `bad_signal` if it carries no `T`; `resumed_by_operator` if an operator ended the wait, so that there is no
    /// signal.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Context, Worker};
    /// use std::time::Duration;
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let worker = Worker::new(&fabric).on("refund", |ctx: Context, cents: u64| async move {
    ///     let decision = ctx.wait_for_signal::<bool>("decision").or_timeout(Duration::from_secs(3600)).await?;
    ///     Ok(match decision {
    ///         Some(it) if it.payload => format!("{cents} refunded, said {}", it.source.unwrap_or_default()),
    ///         Some(_) => "refused".to_owned(),
    ///         None => "nobody has decided".to_owned(),
    ///     })
    /// });
    /// let run = fabric.submit("refund", &500).await?;
    /// fabric.signal(run.id(), "decision").payload(&true).source("ada").await?;
    /// let done = async { assert_eq!(run.result::<String>().await.unwrap(), "500 refunded, said ada") };
    /// worker.run_until(done).await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_for_signal<T>(&self, name: &str) -> WaitForSignal<'_, T> {
        let condition = Condition::signal(name).map_err(unfit);
        WaitForSignal::new(self, name.to_owned(), condition)
    }
}

/// A wait for a signal, which begins when it is awaited.
#[must_use = "a wait begins when it is awaited"]
#[derive(Debug)]
pub struct WaitForSignal<'a, T> {
    suspending: Result<Suspending<'a>, TaskFailure>,
    payload: PhantomData<fn() -> T>,
}

impl<'a, T> WaitForSignal<'a, T> {
    pub(super) fn new(ctx: &'a Context, name: String, condition: Result<Condition, TaskFailure>) -> Self {
        let suspending = condition.map(|condition| Suspending { name, ..ctx.suspend(condition) });
        WaitForSignal { suspending, payload: PhantomData }
    }

    fn set(mut self, set: impl FnOnce(Suspending<'a>) -> Suspending<'a>) -> Self {
        self.suspending = self.suspending.map(set);
        self
    }

    /// What people see while it waits; `waiting_for_signal` otherwise.
    pub fn reason(self, reason: Reason) -> Self {
        self.set(|it| it.reason(reason))
    }

    /// How long it may wait; then the execution ends `failed`.
    pub fn timeout(self, time: Duration) -> Self {
        self.set(|it| it.timeout(time, OnTimeout::Fail))
    }

    /// How long it may wait; then there is no signal, and the handler goes on.
    pub fn or_timeout(self, time: Duration) -> OrTimeout<'a, T> {
        OrTimeout(self.set(|it| it.timeout(time, OnTimeout::Resume)))
    }

    async fn receive(self) -> Result<Option<Received<T>>, TaskFailure>
    where
        T: DeserializeOwned,
    {
        let suspending = self.suspending?;
        let name = suspending.name.clone();
        let resumed = suspending.enter().await?;
        match (resumed.by, resumed.signals.into_iter().next()) {
            (_, Some(signal)) => received(signal).map(Some),
            (ResumedBy::Timeout, None) => Ok(None),
            (ResumedBy::Operator, None) => {
                let problem = format!("an operator has ended the wait for {name}; there is no signal");
                Err(TaskFailure::fatal(problem).code("resumed_by_operator"))
            }
            (ResumedBy::Signals, None) => {
                Err(TaskFailure::retryable(format!("the signal {name} was not found")).code("internal"))
            }
        }
    }
}

/// A wait for a signal that may come too late.
#[must_use = "a wait begins when it is awaited"]
#[derive(Debug)]
pub struct OrTimeout<'a, T>(WaitForSignal<'a, T>);

impl<T> OrTimeout<'_, T> {
    /// What people see while it waits; `waiting_for_signal` otherwise.
    pub fn reason(self, reason: Reason) -> Self {
        OrTimeout(self.0.reason(reason))
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for WaitForSignal<'a, T> {
    type Output = Result<Received<T>, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let none = || TaskFailure::fatal("the wait has ended without a signal").code("no_signal");
            self.receive().await?.ok_or_else(none)
        })
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for OrTimeout<'a, T> {
    type Output = Result<Option<Received<T>>, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.receive())
    }
}

fn received<T: DeserializeOwned>(signal: Signal) -> Result<Received<T>, TaskFailure> {
    let Signal { number, name, source, correlation, at, payload, .. } = signal;
    let payload = serde_json::from_slice(&payload.bytes).map_err(|error| {
        let (wanted, name) = (std::any::type_name::<T>(), name.as_deref().unwrap_or("without a name"));
        let problem = format!("signal {number} ({name}) does not carry a {wanted}: {error}");
        TaskFailure::fatal(problem).code("bad_signal")
    })?;
    Ok(Received { number, name, source, correlation, at, payload })
}
