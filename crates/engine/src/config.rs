//! Settings of an engine. The defaults suit a process that runs alone on one store.

use std::sync::Arc;

use ff_core::Ms;
use ff_core::limits::Limits;

#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub limits: Arc<Limits>,
    pub machine: MachineConfig,
    /// How often other processes' commits are looked for while somebody waits.
    pub status_busy_ms: Ms,
    /// And while nobody does. Posted rows are found by it, so it bounds how long they wait.
    pub status_idle_ms: Ms,
    /// How long a command waits for an unreachable store.
    pub command_timeout_ms: Ms,
    /// Replaces the process's own monotonic clock; with it, nothing happens by itself when time passes, only
    /// when the engine is nudged. For tests that move time.
    pub local_clock: Option<Arc<dyn ff_store::Clock>>,
    /// How much input is kept in memory for claims to come.
    pub payload_cache_bytes: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            limits: Arc::new(Limits::default()),
            machine: MachineConfig::default(),
            status_busy_ms: 50,
            status_idle_ms: 150,
            command_timeout_ms: 30_000,
            payload_cache_bytes: 16 << 20,
            local_clock: None,
        }
    }
}

/// A defect switched on so that the simulator can prove that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Replies leave before the commit that produced them.
    ReplyBeforeCommit,
    /// Rejections leave without the version they were decided on being confirmed.
    StaleRejection,
    /// A lost answer is taken for success without looking at the commit's id.
    CommitIdIgnored,
    /// Posted rows that were read before a conflict are decided after it.
    RowsSurviveConflict,
}

#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// How many commands one batch decides at most.
    pub batch_max: usize,
    /// How many bytes one batch carries at most.
    pub batch_bytes_max: usize,
    /// How many batches of a partition may be on their way to the store at once.
    pub pipeline: usize,
    /// How many commands may wait for one partition.
    pub queue_max: usize,
    pub queue_bytes_max: usize,
    /// How many executions are cached per partition. Those that are suspended or put off are a quarter of that in
    /// all partitions together.
    pub cache_max: usize,
    /// How many entries a refill of a ready or agenda window asks for.
    pub window: usize,
    /// First and longest pause before the store is tried again.
    pub backoff_ms: (Ms, Ms),
    /// Whether servers that are in each other's way give each other errands. An engine decides that by its store.
    pub errands: bool,
    pub bug: Option<Bug>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        MachineConfig {
            batch_max: 2_048,
            batch_bytes_max: 8 << 20,
            pipeline: 2,
            queue_max: 100_000,
            queue_bytes_max: 256 << 20,
            cache_max: 65_536,
            window: 2_048,
            backoff_ms: (20, 2_000),
            errands: false,
            bug: None,
        }
    }
}
