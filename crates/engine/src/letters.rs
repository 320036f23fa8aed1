//! Dead letters: posted rows that could not become executions.

use ff_core::PartitionId;
use ff_core::inbox::DeadLetter;
use ff_core::key::Ask;
use ff_core::workspace::Answer;

use crate::doctor;
use crate::engine::{Engine, unavailable};
use crate::failure::Failure;

impl Engine {
    /// Some dead letters after a number, in the order of their numbers.
    pub async fn dead_letters(&self, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Failure> {
        let mut found = Vec::new();
        for partition in (0..self.store().info().partitions).map(PartitionId) {
            let asks = vec![Ask::DeadLetters { after, limit }];
            let loaded = self.store().load(partition, asks).await.map_err(unavailable)?;
            for answer in loaded.answers {
                if let Answer::DeadLetters { letters, .. } = answer {
                    found.extend(letters);
                }
            }
        }
        found.sort_by_key(|letter: &DeadLetter| letter.posted.number);
        found.truncate(limit);
        Ok(found)
    }

    /// The dead letter with this number, and the partition it is in.
    pub async fn dead_letter(&self, number: u64) -> Result<Option<(PartitionId, DeadLetter)>, Failure> {
        doctor::dead_letter(&**self.store(), number).await.map_err(unavailable)
    }
}
