//! Suspending: the lease goes back until a condition is met.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use ff_core::Ms;
use ff_core::commands::{Suspend, When};
use ff_core::state::Reason;
use ff_core::step::StepKind;
use ff_core::suspension::{Condition, OnTimeout, ResumedBy, Resumption, Signal};

use super::journal::Call;
use super::read;
use crate::time::ms;
use crate::{Context, TaskFailure};

/// How a suspension ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumed {
    pub by: ResumedBy,
    /// When, in milliseconds since the Unix epoch.
    pub at: Ms,
    /// The signals that satisfied it, oldest first.
    pub signals: Vec<Signal>,
}

impl Context {
    /// Parks this execution until a condition is met. The lease goes back, the worker is free, and when the
    /// suspension is over the handler is called again from its start, in the same attempt; this call then returns
    /// how it ended. Steps before it give their recorded results.
    ///
    /// Without a [`timeout`](Suspending::timeout) it may last for ever.
    ///
    /// # Errors
    /// `invalid` if the condition can never be met.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Condition, Context, Worker};
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let worker = Worker::new(&fabric).on("ship", |ctx: Context, order: u64| async move {
    ///     let both = Condition::AllOf(vec![Condition::signal("paid")?, Condition::signal("packed")?]);
    ///     let resumed = ctx.suspend(both).await?;
    ///     Ok(format!("{order} shipped after {} signals", resumed.signals.len()))
    /// });
    /// let run = fabric.submit("ship", &7).await?;
    /// fabric.signal(run.id(), "packed").await?;
    /// fabric.signal(run.id(), "paid").await?;
    /// let done = async { assert_eq!(run.result::<String>().await.unwrap(), "7 shipped after 2 signals") };
    /// worker.run_until(done).await?;
    /// # Ok(()) }
    /// ```
    pub fn suspend(&self, condition: Condition) -> Suspending<'_> {
        Suspending {
            ctx: self,
            name: "suspend".to_owned(),
            condition,
            reason: Reason::WaitingForSignal,
            timeout: None,
            on_timeout: OnTimeout::Fail,
        }
    }
}

/// A suspension to be entered, which begins when it is awaited.
#[derive(Debug)]
#[must_use = "a suspension begins when it is awaited"]
pub struct Suspending<'a> {
    pub(super) ctx: &'a Context,
    pub(super) name: String,
    pub(super) condition: Condition,
    pub(super) reason: Reason,
    pub(super) timeout: Option<Duration>,
    pub(super) on_timeout: OnTimeout,
}

impl Suspending<'_> {
    /// The step under which its end is recorded; `suspend` otherwise.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// What people see while it waits; `waiting_for_signal` otherwise.
    pub fn reason(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// How long it may last, and what happens then.
    pub fn timeout(mut self, time: Duration, then: OnTimeout) -> Self {
        (self.timeout, self.on_timeout) = (Some(time), then);
        self
    }

    pub(super) async fn enter(self) -> Result<Resumed, TaskFailure> {
        let Call { place, recorded } = self.ctx.journal().call(&self.name, StepKind::Wait)?;
        if let Some(step) = recorded {
            let Resumption { by, at, signals, .. } = read(step)?;
            return Ok(Resumed { by, at, signals: self.ctx.journal().signals(&signals) });
        }
        let command = Suspend {
            reason: self.reason,
            timeout: self.timeout.map(|time| When::In(ms(time))),
            on_timeout: self.on_timeout,
            step: Some(place),
            ..Suspend::new(self.ctx.running().fence(), self.condition)
        };
        Err(self.ctx.park(vec![command.into()]).await)
    }
}

impl<'a> IntoFuture for Suspending<'a> {
    type Output = Result<Resumed, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enter())
    }
}
