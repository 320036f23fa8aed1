//! Output streams: frames that an attempt appends while it runs, and a document it keeps up to date.
//!
//! Whether a stream is open is not stored: it ends with its attempt, and a newer attempt supersedes it.

mod merge;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use merge::merge;

use crate::Ms;
use crate::id::ExecutionId;
use crate::name::FrameKind;
use crate::state::words;

words!(
    /// How long a frame is kept, and what it does.
    FrameMode {
        Durable = "durable",
        Summary = "summary",
        BestEffort = "best_effort",
    }
);

/// One piece of output. Written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub execution: ExecutionId,
    pub attempt: u32,
    /// From 1 within its attempt.
    pub number: u64,
    pub at: Ms,
    pub kind: FrameKind,
    pub mode: FrameMode,
    #[serde(with = "crate::base64")]
    pub bytes: Bytes,
}

/// The document that summary frames are merged into.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Grows with each patch.
    pub version: u64,
    pub document: Box<RawValue>,
}

impl PartialEq for Summary {
    fn eq(&self, other: &Summary) -> bool {
        self.version == other.version && self.document.get() == other.document.get()
    }
}

/// What is known of the stream of an execution's newest attempt that appended anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    pub execution: ExecutionId,
    pub attempt: u32,
    /// The number the next frame gets.
    pub next: u64,
    /// Frames of this attempt with smaller numbers are gone.
    pub first: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// When frames were appended last, by how long they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_effort_at: Option<Ms>,
    /// When frames are looked at that may be too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim_at: Option<Ms>,
}

impl Stream {
    pub fn new(execution: ExecutionId, attempt: u32) -> Stream {
        Stream {
            execution,
            attempt,
            next: 1,
            first: 1,
            summary: None,
            durable_at: None,
            best_effort_at: None,
            trim_at: None,
        }
    }
}

/// Frames that go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// Those of one attempt with smaller numbers.
    Below { execution: ExecutionId, attempt: u32, number: u64 },
    /// Those of one mode, of all attempts, that are older.
    Older { execution: ExecutionId, mode: FrameMode, before: Ms },
}

impl Trim {
    pub fn takes(&self, frame: &Frame) -> bool {
        match *self {
            Trim::Below { execution, attempt, number } => {
                frame.execution == execution && frame.attempt == attempt && frame.number < number
            }
            Trim::Older { execution, mode, before } => {
                frame.execution == execution && frame.mode == mode && frame.at < before
            }
        }
    }

    pub fn execution(&self) -> ExecutionId {
        match self {
            Trim::Below { execution, .. } | Trim::Older { execution, .. } => *execution,
        }
    }
}
