//! A commit: the changes of one partition and the version they were decided on.

use ff_core::change::Changes;
use ff_core::{CommitId, Ms, PartitionId, ServerId};
use serde::{Deserialize, Serialize};

/// The newest commit of a partition. A partition nobody has written is at number 0 with a nil id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub number: u64,
    pub id: CommitId,
}

impl Version {
    pub const NONE: Version = Version { number: 0, id: CommitId(uuid::Uuid::nil()) };
}

#[derive(Clone, Debug)]
pub struct Commit {
    pub partition: PartitionId,
    /// The version the changes were decided on. The commit becomes `expected.number + 1`.
    pub expected: Version,
    pub id: CommitId,
    /// Who commits. While another server has the partition's turn, it conflicts.
    pub by: ServerId,
    pub changes: Changes,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is durable. `now` is the store's time.
    Committed { now: Ms },
    /// The partition is at another version, or it is another server's turn. Nothing was written.
    Conflict,
    /// The answer was lost: it may or may not have happened.
    Unknown(String),
    /// Nothing was written, because of this.
    Failed(crate::StoreError),
}
