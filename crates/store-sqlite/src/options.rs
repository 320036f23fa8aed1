//! What can be set when a file is opened.

use std::sync::Arc;
use std::time::Duration;

use ff_store::{Clock, SystemClock};

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// After it is on the disk: it survives the loss of power.
    #[default]
    Full,
    /// After the operating system has it: it survives the end of this process, but the loss of power may take
    /// the newest commits away. The file stays good.
    Normal,
    /// As `Normal`, and the loss of power may damage the file.
    Off,
}

impl Synchronous {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
            Synchronous::Off => "OFF",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// How many partitions a new file gets (1 if absent). A file keeps its number for ever; asking for
    /// another one is refused.
    pub partitions: Option<u16>,
    pub synchronous: Synchronous,
    pub clock: Arc<dyn Clock>,
    /// How long to wait for another process that is writing.
    pub busy_timeout: Duration,
    /// How many threads read.
    pub readers: usize,
    /// How large the file may grow; commits that need more fail as if the disk were full.
    pub bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            partitions: None,
            synchronous: Synchronous::default(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            bytes_max: None,
        }
    }
}
