//! What can be set when a fabric is connected.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ff_core::Ms;
use ff_core::limits::Limits;
use ff_engine::EngineConfig;
use ff_store_sqlite::Synchronous;

use crate::time::TestClock;

/// Settings of a [`Fabric`](crate::Fabric); what the address says wins over what is set here.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Limits, Options};
///
/// let limits = Limits { input_bytes_max: 64 << 10, ..Limits::default() };
/// let fabric = flowfabric::connect_with("memory:", Options::new().limits(limits).partitions(3)).await?;
/// assert_eq!(fabric.limits().input_bytes_max, 64 << 10);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) partitions: Option<u16>,
    pub(crate) synchronous: Synchronous,
    pub(crate) retry_for: Duration,
    pub(crate) engine: EngineConfig,
    pub(crate) clock: Option<Arc<TestClock>>,
    pub(crate) token: Option<Secret>,
    pub(crate) ca_file: Option<PathBuf>,
}

/// A token that is not printed.
#[derive(Clone)]
pub(crate) struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            partitions: None,
            synchronous: Synchronous::default(),
            retry_for: Duration::from_secs(30),
            engine: EngineConfig::default(),
            clock: None,
            token: None,
            ca_file: None,
        }
    }
}

impl Options {
    pub fn new() -> Options {
        Options::default()
    }

    /// The limits on what may be submitted.
    pub fn limits(mut self, limits: Limits) -> Options {
        self.engine.limits = Arc::new(limits);
        self
    }

    /// How many partitions a new store gets. A store keeps its number for ever; one is right unless several
    /// processes share it.
    pub fn partitions(mut self, count: u16) -> Options {
        self.partitions = Some(count);
        self
    }

    /// When a commit to SQLite counts as done.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Options {
        self.synchronous = synchronous;
        self
    }

    /// For how long a call that finds the engine busy or the store out of reach is repeated before it fails.
    pub fn retry_for(mut self, time: Duration) -> Options {
        self.retry_for = time;
        self
    }

    /// How long one command waits for a store that is out of reach.
    pub fn command_timeout(mut self, time: Duration) -> Options {
        self.engine.command_timeout_ms = Ms::try_from(time.as_millis()).unwrap_or(Ms::MAX / 4);
        self
    }

    /// The token with which a server knows this program. Without one it is taken from the environment, as
    /// `FLOWFABRIC_TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Options {
        self.token = Some(Secret(token.into()));
        self
    }

    /// A PEM file with the certificate of an authority that servers may be certified by, beside those that this machine
    /// knows.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Options {
        self.ca_file = Some(path.into());
        self
    }

    /// Everything else about the engine, for those who measure.
    pub fn engine(mut self, config: EngineConfig) -> Options {
        self.engine = config;
        self
    }

    /// Time comes from a clock that a test moves.
    pub(crate) fn clock(mut self, clock: Arc<TestClock>) -> Options {
        self.engine.local_clock = Some(clock.clone());
        self.clock = Some(clock);
        self
    }
}
