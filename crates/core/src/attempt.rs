//! One try at running an execution.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::id::InstanceId;
use crate::name::WorkerName;
use crate::state::AttemptOutcome;

/// Whether an error may be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    #[default]
    Retryable,
    Fatal,
}

/// What went wrong in an attempt, as the worker told it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskError {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<str>>,
    pub message: Box<str>,
    #[serde(default)]
    pub class: ErrorClass,
}

impl TaskError {
    pub fn new(code: &str, message: impl Into<String>) -> TaskError {
        TaskError {
            code: Some(code.into()),
            message: message.into().into_boxed_str(),
            class: ErrorClass::Retryable,
        }
    }
}

/// How far a worker says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
    /// A word the worker chose for what it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<str>>,
}

/// How and when an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub at: Ms,
    pub outcome: AttemptOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// One start of an execution, possibly with pauses: the same attempt goes on after a delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1; grows with each new start, also across replays.
    pub number: u32,
    /// Which series it belongs to: 1, and one more with each replay.
    pub series: u32,
    pub worker: WorkerName,
    pub instance: InstanceId,
    pub started_at: Ms,
    /// Leased time of earlier leases of this attempt; the attempt timeout counts leased time only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub leased_ms: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
}

fn is_zero(value: &Ms) -> bool {
    *value == 0
}
