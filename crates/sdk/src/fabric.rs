//! A fabric: the handle through which a program submits work, looks at it and changes its course.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ff_core::attempt::Attempt;
use ff_core::limits::Limits;
use ff_core::payload::Slot;
use ff_core::query::{CountKey, Filter};
use ff_core::{Command, Execution, ExecutionId, Ms, Payload, Reply};
use ff_engine::explain::Explanation;
use ff_engine::machine::MachineStats;
use ff_engine::random::{self, Random};
use ff_engine::{Ended, Engine, Failure, ShutdownReport};
use ff_store::{MemoryStore, Store};
use ff_store_postgres::PostgresStore;
use ff_store_sqlite::SqliteStore;
use serde::Serialize;
use tokio::time::Instant;

use crate::link::Link;
use crate::link::remote::{self, Remote};
use crate::submission::{Many, Submission};
use crate::time::Time;
use crate::url::{Address, Place};
use crate::{Error, Options, Run};

/// First and longest pause between two tries of a call.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

static JITTER: LazyLock<Random> = LazyLock::new(|| Random::new(random::seed()));

/// Opens a store and starts an engine on it, in this process; or connects to a server, which has both.
///
/// | address | store |
/// |---|---|
/// | `sqlite:PATH` | a SQLite file, made if it is not there; several processes may share it |
/// | `postgres://user:password@host/database` | a PostgreSQL database; any number of processes may share it |
/// | `memory:` | nothing outlives the process; for tests and for trying things out |
/// | `http://host:7400`, `https://…` | whatever the server has; see [`Options::token`] and [`Options::ca_file`] |
///
/// Options follow a question mark: `sqlite:jobs.db?synchronous=normal`, `memory:?partitions=3`.
///
/// # Errors
/// An address that names none of them, or a store that cannot be opened.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("greet", &"world").await?;
/// assert_eq!(run.get().await?.public_state().word(), "waiting");
/// # Ok(()) }
/// ```
pub async fn connect(url: &str) -> Result<Fabric, Error> {
    connect_with(url, Options::default()).await
}

/// Like [`connect`], with settings.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(url: &str, options: Options) -> Result<Fabric, Error> {
    if remote::Address::is_meant(url) {
        return Fabric::remote(remote::Address::parse(url)?, &options).await;
    }
    let store = open_store(url, &options).await?;
    Fabric::on_store(store, options).await
}

/// Opens a store without working on it: for programs that look after stores.
///
/// # Errors
/// As [`connect`], and if the address is that of a server.
pub async fn open_store(url: &str, options: &Options) -> Result<Arc<dyn Store>, Error> {
    let Address { place, partitions, synchronous } = Address::parse(url)?;
    let partitions = partitions.or(options.partitions);
    Ok(match place {
        Place::Memory => Arc::new(MemoryStore::new(partitions.unwrap_or(1))),
        Place::Sqlite(path) => {
            let synchronous = synchronous.unwrap_or(options.synchronous);
            let settings =
                ff_store_sqlite::Options { partitions, synchronous, ..ff_store_sqlite::Options::default() };
            // Opening waits for the disk and for other processes.
            let open = tokio::task::spawn_blocking(move || SqliteStore::open(path, settings)).await;
            Arc::new(open.map_err(|error| Error::Internal(error.to_string()))??)
        }
        Place::Postgres(url) => {
            let address = ff_store_postgres::Address::parse(&url)?;
            let settings = ff_store_postgres::Options { partitions, ..Default::default() };
            Arc::new(PostgresStore::open(address, settings).await?)
        }
    })
}

/// A handle on a running engine and its store. Cheap to clone; the engine stops when it is
/// [shut down](Fabric::shutdown) or the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Fabric {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    time: Time,
    retry_for: Duration,
}

impl Fabric {
    /// Starts an engine on a store that is already open.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn on_store(store: Arc<dyn Store>, options: Options) -> Result<Fabric, Error> {
        let time = Time::new(options.clock.clone());
        let link = Link::Embedded(Engine::start(store, options.engine).await?);
        Ok(Fabric { inner: Arc::new(Inner { link, time, retry_for: options.retry_for }) })
    }

    /// Connects to a server.
    async fn remote(address: remote::Address, options: &Options) -> Result<Fabric, Error> {
        let time = Time::new(options.clock.clone());
        let link = Link::Remote(Arc::new(Remote::connect(address, options).await?));
        Ok(Fabric { inner: Arc::new(Inner { link, time, retry_for: options.retry_for }) })
    }

    /// The engine inside, for what the SDK has no words for; none if the engine runs elsewhere.
    pub fn engine(&self) -> Option<&Engine> {
        self.inner.link.engine()
    }

    pub(crate) fn link(&self) -> &Link {
        &self.inner.link
    }

    pub fn limits(&self) -> &Limits {
        self.link().limits()
    }

    pub(crate) fn time(&self) -> &Time {
        &self.inner.time
    }

    /// The time by which new ids are sorted.
    pub(crate) fn wall(&self) -> Ms {
        self.inner.time.wall()
    }

    // ---- submitting ----------------------------------------------------------------------------------

    /// Submits work: `kind` is the name of the task, `input` becomes JSON.
    ///
    /// What it returns can be refined and is sent when it is awaited; see [`Submission`]. The answer comes
    /// when the work is durable.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # use std::time::Duration;
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let run = fabric
    ///     .submit("charge", &serde_json::json!({ "order": 7 }))
    ///     .lane("billing")
    ///     .priority(5)
    ///     .attempts(5)
    ///     .delay(Duration::from_secs(60))
    ///     .tag("team.name", "payments")
    ///     .idempotency_key("order-7")
    ///     .await?;
    /// assert!(!run.existing());
    /// # Ok(()) }
    /// ```
    pub fn submit<In: Serialize + ?Sized>(&self, kind: &str, input: &In) -> Submission<Fabric> {
        Submission::new(kind, input).on(self.clone())
    }

    /// Submits work whose input is not JSON, or is JSON already.
    pub fn submit_bytes(
        &self,
        kind: &str,
        content_type: &str,
        bytes: impl Into<bytes::Bytes>,
    ) -> Submission<Fabric> {
        Submission::of_bytes(kind, content_type, bytes).on(self.clone())
    }

    /// Submits many at once. Each is answered for itself, in order; one that is refused does not keep the
    /// others from being stored.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// use flowfabric::Submission;
    ///
    /// let orders = (0..100).map(|n| Submission::new("charge", &n).lane("billing")).collect();
    /// let runs = fabric.submit_many(orders).await;
    /// assert!(runs.iter().all(Result::is_ok));
    /// # Ok(()) }
    /// ```
    pub async fn submit_many(&self, submissions: Vec<Submission>) -> Vec<Result<Run, Error>> {
        Many::new(self, submissions).send().await
    }

    // ---- looking -------------------------------------------------------------------------------------

    /// A handle on an execution by its id, whether or not there is one.
    pub fn run(&self, id: ExecutionId) -> Run {
        Run::new(self.clone(), id, true)
    }

    /// An execution as it is stored.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn get(&self, id: ExecutionId) -> Result<Arc<Execution>, Error> {
        let found = self.retried(|| self.link().get(id)).await?;
        found.ok_or_else(|| not_found(id))
    }

    /// The input an execution was submitted with.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn input(&self, id: ExecutionId) -> Result<Payload, Error> {
        let found = self.retried(|| self.link().payload(id, Slot::Input)).await?;
        found.ok_or_else(|| not_found(id))
    }

    /// The result of an execution, if it has one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn result(&self, id: ExecutionId) -> Result<Option<Payload>, Error> {
        self.retried(|| self.link().payload(id, Slot::Result)).await
    }

    /// All attempts at an execution, oldest first.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Error> {
        self.retried(|| self.link().attempts(id)).await
    }

    /// Waits until an execution has ended, however that may be.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn wait(&self, id: ExecutionId) -> Result<Ended, Error> {
        self.retried(|| self.link().wait(id)).await
    }

    /// Why an execution does or does not run: every gate it stands before, with its values.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let run = fabric.submit("render", &1).capability("gpu").await?;
    /// let why = run.explain().await?;
    /// assert_eq!(why.reason, "no_capable_worker");
    /// assert!(why.gates.iter().any(|gate| gate.detail == "no worker serves the lane default"));
    /// # Ok(()) }
    /// ```
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Error> {
        self.retried(|| self.link().explain(id)).await
    }

    /// How many executions match a filter, and whether there are more than were counted: namespace, lane, kind
    /// and state are counted exactly, other filters up to 10,000.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn count(&self, filter: &Filter) -> Result<Count, Error> {
        let (count, more) = self.retried(|| self.link().count(filter)).await?;
        Ok(Count { count, more })
    }

    /// Exact counts by namespace, lane, kind and state.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn counts(&self) -> Result<Vec<(CountKey, u64)>, Error> {
        self.retried(|| self.link().counts()).await
    }

    /// What waits in the engine and what has failed, for operators.
    ///
    /// # Errors
    /// The fabric is shut down.
    pub async fn stats(&self) -> Result<MachineStats, Error> {
        Ok(self.link().stats().await?)
    }

    // ---- stopping ------------------------------------------------------------------------------------

    /// Stops the engine: no more commands are taken, what is on its way to the store ends within `grace`, and
    /// the store is closed. Workers on this fabric should be stopped first. Calling it twice is harmless.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.link().shutdown(grace).await
    }

    // ---- commands ------------------------------------------------------------------------------------

    /// Carries out a command that may safely be sent again.
    pub(crate) async fn command(&self, command: Command) -> Result<Reply, Error> {
        self.carry_out(command).await.0
    }

    /// Like [`command`](Self::command); says also whether an answer was lost on the way. Then what is refused may have
    /// been done before.
    pub(crate) async fn carry_out(&self, command: Command) -> (Result<Reply, Error>, bool) {
        let mut patience = self.patience();
        let (mut next, mut lost) = (command.clone(), false);
        loop {
            let result = self.link().execute(next).await;
            match result {
                Err(Failure::OutcomeUnknown) if !command.is_repeatable() => {
                    return (Err(Error::OutcomeUnknown), true);
                }
                Err(failure) if patience.lasts_for(&failure) => {
                    lost |= matches!(failure, Failure::OutcomeUnknown);
                    patience.pause().await;
                }
                result => return (result.map_err(Error::from), lost),
            }
            next = command.clone().repeated();
        }
    }

    /// Repeats a call that found the engine busy or the store out of reach, with growing pauses, for a while.
    pub(crate) async fn retried<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, Error> {
        let mut patience = self.patience();
        loop {
            match call().await {
                Err(failure) if patience.lasts_for(&failure) => patience.pause().await,
                result => return result.map_err(Error::from),
            }
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience::of(self.inner.retry_for)
    }
}

/// A number of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    pub count: u64,
    /// There are more; counting has stopped.
    pub more: bool,
}

/// How long a call is repeated.
pub(crate) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    pub fn of(time: Duration) -> Patience {
        let now = Instant::now();
        // A time that no clock reaches is as good as none.
        let until = now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(u64::from(u32::MAX)));
        Patience { until, pause: PAUSE.0 }
    }

    /// Something moves; the next pause is short.
    pub fn calm(&mut self) {
        self.pause = PAUSE.0;
    }

    /// Questions can be asked again after a lost answer, and so can commands that
    /// [are repeatable](Command::is_repeatable).
    pub fn lasts_for(&self, failure: &Failure) -> bool {
        let passing =
            matches!(failure, Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown);
        passing && Instant::now() < self.until
    }

    /// Pauses after a call of which a part was carried out; the pauses grow only while nothing moves.
    pub async fn pause_after(&mut self, done: usize) {
        if done > 0 {
            self.calm();
        }
        self.pause().await;
    }

    pub async fn pause(&mut self) {
        let part = JITTER.next() as f64 / u64::MAX as f64;
        tokio::time::sleep(self.next_pause(part)).await;
    }

    /// How long to pause now; the next pause is longer. Callers that were turned away together do not come back
    /// together: `part`, between 0 and 1, says where in the second half of the pause.
    fn next_pause(&mut self, part: f64) -> Duration {
        let pause = self.pause.mul_f64(0.5 + part / 2.0);
        self.pause = (self.pause * 2).min(PAUSE.1);
        pause
    }
}

pub(crate) fn not_found(id: ExecutionId) -> Error {
    Error::Rejected(ff_core::Rejection::NotFound { what: "execution".into(), id: id.to_string() })
}

pub(crate) fn odd_reply(reply: &Reply) -> Error {
    Error::Internal(format!("the engine gave an answer to another question: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_begin_anew_once_something_moves() {
        let mut patience = Patience::of(Duration::ZERO);
        let pauses: Vec<u128> = (0..10).map(|_| patience.next_pause(1.0).as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 500, 500, 500]);
        patience.calm();
        assert_eq!(patience.next_pause(1.0), PAUSE.0);
        let (shortest, longest) = (patience.next_pause(0.0), patience.next_pause(1.0));
        assert_eq!((shortest, longest), (PAUSE.0, PAUSE.0 * 4), "by chance a half of it, and never more");
    }

    #[test]
    fn only_what_passes_is_repeated_and_only_for_so_long() {
        let (patient, hasty) = (Patience::of(Duration::MAX), Patience::of(Duration::ZERO));
        for passing in [
            Failure::OutcomeUnknown,
            Failure::Unavailable("away".into()),
            Failure::Busy { waiting: 2, max: 1 },
        ] {
            assert!(patient.lasts_for(&passing) && !hasty.lasts_for(&passing), "{passing}");
        }
        for lasting in [Failure::ShuttingDown, Failure::Internal("odd".into())] {
            assert!(!patient.lasts_for(&lasting), "{lasting}");
        }
    }
}
