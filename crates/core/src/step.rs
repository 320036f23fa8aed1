//! Durable steps: what parts of an attempt came to, so that a later one does not run them again.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::id::ExecutionId;
use crate::name::StepName;
use crate::payload::Payload;
use crate::state::words;

/// Which step of an execution: the name it was given, and how many of that name were called before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepKey {
    pub name: StepName,
    #[serde(default)]
    pub occurrence: u32,
}

impl std::fmt::Display for StepKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.occurrence {
            0 => f.write_str(&self.name),
            n => write!(f, "{} #{}", self.name, u64::from(n) + 1),
        }
    }
}

/// A step that is still to be done: which, and its place in the order in which they are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPlace {
    #[serde(flatten)]
    pub key: StepKey,
    pub number: u32,
}

words!(
    /// What a step did.
    StepKind {
        Run = "run",
        Wait = "wait",
        Sleep = "sleep",
        Waitpoint = "waitpoint",
        Child = "child",
    }
);

/// A step that is done. Written once; the same step recorded again replaces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub execution: ExecutionId,
    pub key: StepKey,
    pub kind: StepKind,
    /// Its place in the order in which they were recorded.
    pub number: u32,
    /// The attempt that recorded it.
    pub attempt: u32,
    pub started_at: Ms,
    pub ended_at: Ms,
    pub result: Payload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_name_are_told_apart_however_many_there_are() {
        let text = |occurrence| StepKey { name: "pay".parse().unwrap(), occurrence }.to_string();
        assert_eq!((text(0), text(1)), ("pay".to_owned(), "pay #2".to_owned()));
        assert_eq!(text(u32::MAX), "pay #4294967296");
    }
}
