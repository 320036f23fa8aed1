//! Workers: they claim work, run handlers, keep leases alive, and give back what they cannot finish.
//!
//! | part | does |
//! |---|---|
//! | [`Worker`] | what is set before it starts |
//! | `shift.rs` | asks for work while there is room; drains |
//! | `crew.rs` | runs one attempt from claim to ending |
//! | `keeper.rs` | renews leases, on a thread of its own |
//! | `running.rs` | one attempt's lease and whether it should stop |

pub(crate) mod crew;
mod keeper;
pub(crate) mod running;
mod shift;

use std::any::TypeId;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::class::Capabilities;
use ff_core::rejection::Invalid;
use ff_core::{Capability, Kind, LaneName, Namespace, Payload, WorkerName};
use serde::de::DeserializeOwned;

use crate::context::Data;
use crate::handler::{self, Handlers, IntoOutcome, Outcome};
use crate::{Context, Error, Fabric, TaskFailure};

/// A worker: claims executions of the kinds it has handlers for and runs them.
///
/// While it runs, it renews the leases of what it holds, hands cancel requests to the handlers, and stops
/// handlers whose lease is lost. When it is told to stop, it takes no more work, lets handlers finish for up to
/// its [`grace`](Worker::grace), and gives the rest back; nothing is spent by that.
///
/// A future of [`run`](Worker::run) that is dropped before it has ended is like a process that is killed:
/// handlers stop, and others get the work when its leases have run out.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("greet", &"world").lane("hello").await?;
/// let done = async { assert_eq!(run.result::<String>().await.unwrap(), "hello, world") };
///
/// Worker::new(&fabric)
///     .lane("hello")
///     .concurrency(8)
///     .on("greet", |_: Context, name: String| async move { Ok(format!("hello, {name}")) })
///     .run_until(done)
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing before it runs"]
pub struct Worker {
    fabric: Fabric,
    plan: Result<Plan, Error>,
    handlers: Handlers,
    data: Data,
    concurrency: usize,
    grace: Duration,
}

/// What a worker registers with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    name: WorkerName,
    lanes: Vec<LaneName>,
    namespaces: Vec<Namespace>,
    capabilities: Vec<Capability>,
    build: Option<Box<str>>,
}

impl Plan {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.capabilities.iter().cloned())
    }
}

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// An operator drained it.
    pub drained: bool,
    /// How many executions it gave back because their handlers had not ended within the grace.
    pub given_back: usize,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<&Kind> = self.handlers.keys().collect();
        f.debug_struct("Worker").field("plan", &self.plan).field("kinds", &kinds).finish_non_exhaustive()
    }
}

impl Worker {
    pub fn new(fabric: &Fabric) -> Worker {
        let name = WorkerName::parse("worker").map_err(Error::from);
        let plan = name.map(|name| Plan {
            name,
            lanes: Vec::new(),
            namespaces: Vec::new(),
            capabilities: Vec::new(),
            build: None,
        });
        let (handlers, data) = (Handlers::new(), Data::new());
        let grace = Duration::from_secs(30);
        Worker { fabric: fabric.clone(), plan, handlers, data, concurrency: 64, grace }
    }

    /// Sets something that was checked; the first thing that does not fit is what its runner hears.
    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut Plan, T)) -> Worker {
        match (&mut self.plan, value) {
            (Ok(plan), Ok(value)) => put(plan, value),
            (Ok(_), Err(invalid)) => self.plan = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    /// The name under which attempts and lists show it.
    pub fn name(self, name: &str) -> Worker {
        self.set(WorkerName::parse(name), |plan, name| plan.name = name)
    }

    /// A lane it serves; may be given several times. Without any it serves `default`.
    pub fn lane(self, name: &str) -> Worker {
        self.set(LaneName::parse(name), |plan, lane| plan.lanes.push(lane))
    }

    /// Several lanes it serves.
    pub fn lanes<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Worker {
        names.into_iter().fold(self, Worker::lane)
    }

    /// A namespace it serves; may be given several times. Without any it serves all.
    pub fn namespace(self, name: &str) -> Worker {
        self.set(Namespace::parse(name), |plan, namespace| plan.namespaces.push(namespace))
    }

    /// A word that work may require; may be given several times.
    pub fn capability(self, word: &str) -> Worker {
        self.set(Capability::parse(word), |plan, word| plan.capabilities.push(word))
    }

    /// Which build of the program it is, for people who look at the list of workers.
    pub fn build(self, build: &str) -> Worker {
        self.set(Ok(build.into()), |plan, build| plan.build = Some(build))
    }

    /// How many handlers run at the same time; 64 otherwise.
    pub fn concurrency(mut self, count: usize) -> Worker {
        self.concurrency = count;
        self
    }

    /// How long handlers may take to finish when the worker stops; 30 seconds otherwise.
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.grace = grace;
        self
    }

    /// A value that handlers reach with [`Context::data`]; one of each type.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Worker {
        self.data.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The handler for a kind. Its input is read from JSON; an input that cannot be read is a fatal failure
    /// with the code `bad_input`. Its result becomes JSON. A panic is a failure with the code `panic`.
    ///
    /// Handlers run on the runtime that runs the worker; one that blocks belongs into
    /// `tokio::task::spawn_blocking`.
    pub fn on<In, Out, F, Fut>(self, kind: &str, handler: F) -> Worker
    where
        In: DeserializeOwned,
        Out: IntoOutcome,
        F: Fn(Context, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, TaskFailure>> + Send + 'static,
    {
        self.handle(kind, handler::typed(handler))
    }

    /// The handler for a kind whose input and result are bytes of any type.
    pub fn on_raw<F, Fut>(self, kind: &str, handler: F) -> Worker
    where
        F: Fn(Context, Payload) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome<Payload>, TaskFailure>> + Send + 'static,
    {
        self.handle(kind, handler::raw(handler))
    }

    fn handle(mut self, kind: &str, handler: handler::Handler) -> Worker {
        let parsed = Kind::parse(kind).and_then(|kind| match self.handlers.contains_key(&kind) {
            true => Err(Invalid::new("kind", format!("{kind:?} has two handlers; give it one"))),
            false => Ok(kind),
        });
        match parsed {
            Ok(kind) => drop(self.handlers.insert(kind, handler)),
            Err(invalid) => return self.set(Err(invalid), |_, ()| {}),
        }
        self
    }

    /// Runs until the process is asked to end (SIGTERM, SIGINT or ctrl-c), then drains.
    ///
    /// # Errors
    /// As [`run_until`](Worker::run_until).
    pub async fn run(self) -> Result<Stopped, Error> {
        self.run_until(crate::asked_to_end()).await
    }

    /// Runs until a future ends or an operator drains it, then drains.
    ///
    /// # Errors
    /// A setting that does not fit, named; or the store cannot be reached when it starts.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<Stopped, Error> {
        let mut plan = self.plan?;
        if self.handlers.is_empty() {
            return Err(Error::invalid(
                "kind",
                "is missing: give the worker a handler with .on(kind, handler)",
            ));
        }
        if self.concurrency == 0 {
            return Err(Error::invalid("concurrency", "is 0; allowed are 1 and more"));
        }
        if plan.lanes.is_empty() {
            plan.lanes.push(LaneName::default());
        }
        shift::work(self.fabric, plan, self.handlers, self.data, self.concurrency, self.grace, shutdown).await
    }
}
