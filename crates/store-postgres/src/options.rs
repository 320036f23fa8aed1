//! What can be set when a database is opened.

use std::sync::Arc;

use ff_store::Clock;

/// How many partitions a new store gets.
pub(crate) const PARTITIONS: u16 = 32;

#[derive(Clone, Debug)]
pub struct Options {
    /// How many partitions a new store gets (32 if absent). A store keeps its number for ever; asking for
    /// another one is refused.
    pub partitions: Option<u16>,
    /// How many connections write. Each partition always uses the same one.
    pub writers: usize,
    /// How many connections read.
    pub readers: usize,
    /// Whether opening may create the schema or bring it up to date.
    pub migrate: bool,
    /// Replaces the clock of the database. For tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Options { partitions: None, writers: 2, readers: 2, migrate: true, clock: None }
    }
}
