//! How long work has waited for a worker.

use std::collections::BTreeMap;

use ff_core::execution::State;
use ff_core::key::Ask;
use ff_core::ready::Place;
use ff_core::workspace::Answer;
use ff_core::{LaneName, Ms};

use crate::engine::{Engine, unavailable};
use crate::failure::Failure;

/// How many entries of each lane and class are looked at. Those with a higher priority may stand before older ones, so
/// the first alone does not tell.
const HEADS: usize = 32;

/// How many lanes and classes of one partition are looked at.
const CLASSES_MAX: usize = 256;

impl Engine {
    /// For how long the work of each lane has been ready: the longest among those next in line. Lanes in which nothing is
    /// ready are left out, and so is what an operator holds.
    pub async fn queue_ages(&self) -> Result<BTreeMap<LaneName, Ms>, Failure> {
        let store = self.store();
        let (_, partitions) = store.status().await.map_err(unavailable)?;
        let mut ages = BTreeMap::<LaneName, Ms>::new();
        for status in partitions.into_iter().filter(|it| !it.ready.is_empty()) {
            let first = Place { rank: i64::MIN, number: 0 };
            let asks = status.ready.into_iter().take(CLASSES_MAX);
            let asks = asks.map(|(lane, class, _)| Ask::Ready { lane, class, after: first, limit: HEADS });
            let loaded = store.load(status.partition, asks.collect()).await.map_err(unavailable)?;
            for answer in loaded.answers {
                let Answer::Ready { lane, executions, .. } = answer else { continue };
                let since = executions.iter().filter_map(|it| match it.live.state {
                    State::Ready { since, .. } => Some(since),
                    _ => None,
                });
                let Some(oldest) = since.min() else { continue };
                let age = ages.entry(lane).or_default();
                *age = (*age).max(loaded.now - oldest);
            }
        }
        Ok(ages)
    }
}
