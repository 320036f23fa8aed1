//! A store that another one is being copied into: not all of it is there, so nobody may work on it.

use serde::{Deserialize, Serialize};

use crate::Ms;

/// Says that a store is not whole yet. It is the first that a copy writes and the last that it removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedCopy {
    /// What is copied, as it may be shown.
    pub from: Box<str>,
    pub started_at: Ms,
}
