//! What a handler knows of the attempt it runs.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ff_core::attempt::Progress;
use ff_core::commands::Report;
use ff_core::tags::Tags;
use ff_core::{Execution, ExecutionId, Kind, LaneName, Namespace, Reply};

use crate::durable::Journal;
use crate::failure::fit;
use crate::output::Output;
use crate::worker::running::Running;
use crate::{Expansion, Fabric, FlowRun, Outcome, TaskFailure};

/// Values that all handlers of a worker share, one of each type.
pub(crate) type Data = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// The attempt a handler runs: what it is, whether it should stop, and how to say how far it is. Cheap to
/// clone.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// struct Prices { apple: u64 }
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("price", &3).await?;
/// let worker = Worker::new(&fabric).data(Prices { apple: 5 }).on("price", |ctx: Context, count: u64| async move {
///     ctx.progress(50, "weighing").await;
///     assert_eq!(ctx.attempt(), 1);
///     Ok(count * ctx.data::<Prices>()?.apple)
/// });
/// worker.run_until(async { assert_eq!(run.result::<u64>().await.unwrap(), 15) }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    fabric: Fabric,
    execution: Arc<Execution>,
    running: Arc<Running>,
    data: Arc<Data>,
    /// What the handler adds to its flow.
    expansion: OnceLock<Expansion>,
    journal: Journal,
    output: Arc<Output>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("fence", &self.running.fence()).finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(
        fabric: Fabric,
        execution: Arc<Execution>,
        running: Arc<Running>,
        data: Arc<Data>,
        journal: Journal,
    ) -> Context {
        let output = Arc::new(Output::new(&fabric, &execution, running.clone()));
        let expansion = OnceLock::new();
        Context { inner: Arc::new(Inner { fabric, execution, running, data, expansion, journal, output }) }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    pub(crate) fn running(&self) -> &Running {
        &self.inner.running
    }

    pub(crate) fn output(&self) -> &Arc<Output> {
        &self.inner.output
    }

    /// Looks whether an answer says that somebody wants this work to stop.
    pub(crate) fn heed(&self, reply: &Reply) {
        if let Reply::Noted { cancel: Some(_) } = reply {
            self.inner.running.request_cancel();
        }
    }

    pub fn id(&self) -> ExecutionId {
        self.inner.execution.id
    }

    pub fn kind(&self) -> &Kind {
        &self.inner.execution.spec.kind
    }

    pub fn lane(&self) -> &LaneName {
        &self.inner.execution.spec.lane
    }

    pub fn namespace(&self) -> &Namespace {
        &self.inner.execution.spec.namespace
    }

    pub fn tags(&self) -> &Tags {
        &self.inner.execution.live.tags
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.execution.attempt_number()
    }

    /// Whether the policy allows no further attempt after this one.
    pub fn is_last_attempt(&self) -> bool {
        let execution = &self.inner.execution;
        execution.live.series.spent + 1 >= execution.spec.policy.max_attempts
    }

    /// The execution as it was when it was claimed.
    pub fn execution(&self) -> &Arc<Execution> {
        &self.inner.execution
    }

    /// The fabric the worker serves, to submit more work.
    pub fn fabric(&self) -> &Fabric {
        &self.inner.fabric
    }

    /// The value of this type that was given to the worker with [`data`](crate::Worker::data).
    ///
    /// # Errors
    /// A fatal failure with the code `missing_data` if there is none.
    pub fn data<T: Send + Sync + 'static>(&self) -> Result<&T, TaskFailure> {
        let found = self.inner.data.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        found.ok_or_else(|| {
            let name = std::any::type_name::<T>();
            TaskFailure::fatal(format!("the worker was given no {name}; add .data(…) to it"))
                .code("missing_data")
        })
    }

    /// Says how far it is, in percent and words. It is a remark: if it cannot be stored, the work goes on.
    pub async fn progress(&self, percent: u8, message: &str) {
        let message = fit(message, self.inner.fabric.limits().progress_message_bytes_max);
        let message = Some(message.into_boxed_str());
        self.report(Progress { percent: Some(percent.min(100)), message, status: None }).await;
    }

    /// Sets the word for what it is doing, such as `downloading`.
    pub async fn status(&self, word: &str) {
        self.report(Progress { status: Some(fit(word, 128).into()), ..Progress::default() }).await;
    }

    async fn report(&self, progress: Progress) {
        let fence = self.inner.running.fence();
        match self.inner.fabric.link().execute(Report { fence, progress }).await {
            Ok(reply) => self.heed(&reply),
            Err(failure) => tracing::debug!(execution = %self.id(), %failure, "progress was not stored"),
        }
    }

    /// Whether somebody has asked for this work to stop. A handler that completes all the same within the
    /// grace has completed; one that fails or returns early is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.running.is_cancelled()
    }

    /// Waits until [`is_cancelled`](Self::is_cancelled); for `tokio::select!`.
    pub async fn cancelled(&self) {
        self.inner.running.cancelled().await;
    }

    /// The flow that this work is a member of, if it is in one.
    pub fn flow(&self) -> Option<FlowRun> {
        self.inner.execution.flow().map(|id| self.inner.fabric.flow_run(id))
    }

    /// Starts to draw nodes that come after this one; they are stored with its completion. Calling it again goes
    /// on with the same drawing.
    ///
    /// # Errors
    /// A fatal failure with the code `not_in_flow` if this work is in no flow.
    pub fn expand(&self) -> Result<Expansion, TaskFailure> {
        let inner = &self.inner;
        let flow = inner.execution.flow().ok_or_else(|| {
            TaskFailure::fatal("this work is in no flow, so nothing can come after it; submit a flow")
                .code("not_in_flow")
        })?;
        let new = || Expansion::new(&inner.fabric, flow, &inner.execution);
        Ok(inner.expansion.get_or_init(new).clone())
    }

    /// What the handler has drawn.
    pub(crate) fn expansion(&self) -> Option<&Expansion> {
        self.inner.expansion.get()
    }

    /// Puts the rest off: return it from the handler. The lease goes back, and after `delay` the same attempt
    /// goes on here or on another worker, from the start of the handler. Nothing is spent.
    pub fn delay<T>(&self, delay: Duration) -> Outcome<T> {
        Outcome::Delay(delay)
    }
}
