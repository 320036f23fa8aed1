//! What waits for a worker, and for how long.

use std::collections::BTreeMap;

use ff_core::execution::State;
use ff_core::key::{Ask, Key};
use ff_core::lane::LaneMode;
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

/// What is ready in one lane. What an operator holds is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub depth: u64,
    /// The longest that any of those next in line has been ready. None where there are so many lanes that this one was
    /// not looked at.
    pub age: Option<Ms>,
    /// Nothing of the lane starts until an operator resumes it.
    pub paused: bool,
}

impl Engine {
    /// The lanes in which something is ready.
    pub async fn queues(&self) -> Result<BTreeMap<LaneName, Queue>, Failure> {
        let store = self.store();
        let (_, partitions) = store.status().await.map_err(unavailable)?;
        let mut queues = BTreeMap::<LaneName, Queue>::new();
        for status in partitions.into_iter().filter(|it| !it.ready.is_empty()) {
            let first = Place { rank: i64::MIN, number: 0 };
            let mut asks = Vec::new();
            for (place, (lane, class, count)) in status.ready.into_iter().enumerate() {
                queues.entry(lane.clone()).or_default().depth += count;
                if place < CLASSES_MAX {
                    asks.push(Ask::Record(Key::Lane(lane.clone())));
                    asks.push(Ask::Ready { lane, class, after: first, limit: HEADS });
                }
            }
            let loaded = store.load(status.partition, asks).await.map_err(unavailable)?;
            for answer in loaded.answers {
                match answer {
                    Answer::Lane(name, Some(lane)) => {
                        queues.entry(name).or_default().paused |= lane.mode == LaneMode::Paused;
                    }
                    Answer::Ready { lane, executions, .. } => {
                        let since = executions.iter().filter_map(|it| match it.live.state {
                            State::Ready { since, .. } => Some(since),
                            _ => None,
                        });
                        let age = since.min().map(|oldest| loaded.now - oldest);
                        let queue = queues.entry(lane).or_default();
                        queue.age = queue.age.max(age);
                    }
                    _ => {}
                }
            }
        }
        Ok(queues)
    }
}
