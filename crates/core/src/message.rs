//! Messages between partitions: numbered per sender and receiver, applied in order, exactly once.

use serde::{Deserialize, Serialize};

use crate::id::PartitionId;
use crate::lane::Lane;
use crate::suspension::SigningKey;
use crate::worker::WorkerInstance;

/// What one partition tells another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Message {
    /// The copy of a lane.
    Lane(Lane),
    /// The copy of a worker instance.
    Worker(WorkerInstance),
    /// The copy of a key that tokens are signed with.
    Key(SigningKey),
}

impl Message {
    /// Whether both are copies of the same record.
    pub fn is_about_the_same(&self, other: &Message) -> bool {
        match (self, other) {
            (Message::Lane(one), Message::Lane(other)) => one.name == other.name,
            (Message::Worker(one), Message::Worker(other)) => one.instance == other.instance,
            (Message::Key(one), Message::Key(other)) => one.id == other.id,
            _ => false,
        }
    }
}

/// What a partition knows of its exchange with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub peer: PartitionId,
    /// The number of the newest message sent to it.
    pub sent: u64,
    /// The number of the newest message applied from it.
    pub received: u64,
}
