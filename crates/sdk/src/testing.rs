//! For tests of programs that use the SDK: a fabric in memory whose clock the test moves.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ff_core::Ms;
use ff_engine::Engine;
use ff_store::memory::Partition;
use ff_store::{Clock, MemoryStore};

use crate::link::Link;
use crate::time::{TestClock, ms};
use crate::{Error, Fabric, Options, connect_with};

/// The time at which test clocks start: 2026-01-01 00:00 UTC.
const START: Ms = 1_767_225_600_000;
/// How often nothing must have happened before everything counts as quiet.
const CALM: u32 = 3;
/// How far time moves at once while the engine cannot do what it has to.
const RETRY_MS: Ms = 100;

/// A fabric in memory whose clock stands still until the test moves it.
///
/// Everything that waits for time waits for this clock: delays, backoffs, deadlines, leases and their renewal,
/// heartbeats. [`advance`](TestFabric::advance) does what so much time would do, step by step, without
/// waiting.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::testing::TestFabric;
/// use std::time::Duration;
///
/// let fabric = TestFabric::new().await;
/// let run = fabric.submit("remind", &"water the plants").deadline(Duration::from_secs(3600)).await?;
/// fabric.advance(Duration::from_secs(3599)).await;
/// assert_eq!(run.get().await?.public_state().word(), "waiting");
/// fabric.advance(Duration::from_secs(1)).await;
/// assert_eq!(run.get().await?.reason().word(), "deadline_passed");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestFabric {
    fabric: Fabric,
    engine: Engine,
    store: Arc<MemoryStore>,
    clock: Arc<TestClock>,
    server: Option<TestServer>,
}

/// A server that a test has started on the engine of a [`TestFabric`].
pub struct TestServer {
    /// Its address, such as `http://127.0.0.1:7400`.
    pub url: String,
    /// How many requests it keeps waiting at the moment.
    pub waiting: Box<dyn Fn() -> usize + Send + Sync>,
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Deref for TestFabric {
    type Target = Fabric;

    fn deref(&self) -> &Fabric {
        &self.fabric
    }
}

impl TestFabric {
    /// A fabric with one partition and the default limits.
    ///
    /// # Panics
    /// The engine's thread cannot be started.
    pub async fn new() -> TestFabric {
        Self::with(Options::new()).await.expect("a store in memory is always there")
    }

    /// A fabric with settings.
    ///
    /// # Errors
    /// The engine's thread cannot be started.
    pub async fn with(options: Options) -> Result<TestFabric, Error> {
        let clock = Arc::new(TestClock::at(START));
        let store = MemoryStore::with_clock(options.partitions.unwrap_or(1), clock.clone());
        let store = Arc::new(store);
        let fabric = Fabric::on_store(store.clone(), options.clock(clock.clone())).await?;
        let engine = fabric.engine().cloned().ok_or(Error::ShuttingDown)?;
        Ok(TestFabric { fabric, engine, store, clock, server: None })
    }

    /// A fabric with settings that reaches its engine through a server, which the test starts on the engine and the
    /// clock that it is given.
    ///
    /// # Errors
    /// The engine's thread cannot be started, or the server does not answer.
    pub async fn behind<F: Future<Output = TestServer>>(
        options: Options,
        start: impl FnOnce(Engine, Arc<dyn Clock>) -> F,
    ) -> Result<TestFabric, Error> {
        let local = TestFabric::with(options.clone()).await?;
        let server = start(local.engine.clone(), local.clock.clone()).await;
        let fabric = connect_with(&server.url, options.clock(local.clock.clone())).await?;
        Ok(TestFabric { fabric, server: Some(server), ..local })
    }

    /// The engine, wherever the fabric's calls go.
    pub fn local_engine(&self) -> &Engine {
        &self.engine
    }

    /// The store, with its switches that make it fail.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// The time on the clock, in milliseconds since the Unix epoch.
    pub fn now(&self) -> Ms {
        self.clock.now()
    }

    /// Lets time pass. On the way it stops wherever something is due, so that leases are renewed and timers
    /// act in their order. What handlers do on their own is not waited for; wait for its result.
    pub async fn advance(&self, time: Duration) {
        let target = self.now().saturating_add(ms(time));
        loop {
            let idle = self.calm_down().await;
            let now = self.now();
            if now >= target {
                return;
            }
            // An engine that cannot reach its store tries again after pauses that are in no agenda.
            let next = if idle { self.next_due() } else { Some(now + RETRY_MS) };
            self.clock.step(next.map_or(target, |next| next.min(target)));
        }
    }

    /// The first time after now at which the engine does something by itself.
    fn next_due(&self) -> Option<Ms> {
        let now = self.now();
        let due = |it: &Partition| it.agenda().map(|(key, _)| key.due).find(|due| *due > now);
        self.store.inspect(|state| state.partitions().filter_map(|(_, it)| due(it)).min())
    }

    /// Waits until nothing happens any more without time passing: the engine has nothing to do or cannot do
    /// it, and every timer's owner waits again.
    pub async fn settle(&self) {
        self.calm_down().await;
    }

    /// Whether nothing is on its way between here and a server.
    fn is_way_quiet(&self) -> bool {
        match (&self.server, self.fabric.link()) {
            (Some(server), Link::Remote(remote)) => remote.traffic().is_quiet((server.waiting)()),
            _ => true,
        }
    }

    /// Returns whether the engine has nothing left to do.
    async fn calm_down(&self) -> bool {
        let mut before = None;
        let mut calm = 0;
        loop {
            self.engine.nudge().await;
            let Ok(stats) = self.engine.stats().await else { return true };
            // What the engine has answered, its askers will act on. A store that is out of reach is different:
            // nobody gets an answer before time passes.
            let idle = stats.queued == 0 && stats.in_flight == 0;
            let quiet = !idle || (self.clock.is_quiet() && self.is_way_quiet());
            calm = if quiet && before.as_ref() == Some(&stats) { calm + 1 } else { 0 };
            if calm == CALM {
                return idle;
            }
            before = Some(stats);
        }
    }
}
