//! Inputs and results: bytes that are carried and never parsed.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::ExecutionId;

pub const JSON: &str = "application/json";

/// Bytes and what they are. Written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub content_type: Arc<str>,
    pub bytes: Bytes,
}

impl Payload {
    pub fn json(bytes: impl Into<Bytes>) -> Payload {
        Payload { content_type: Arc::from(JSON), bytes: bytes.into() }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Which of an execution's payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    Input,
    Result,
}

impl Slot {
    pub const ALL: [Slot; 2] = [Slot::Input, Slot::Result];

    pub fn word(self) -> &'static str {
        match self {
            Slot::Input => "input",
            Slot::Result => "result",
        }
    }

    pub fn from_word(word: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.word() == word)
    }
}

/// Names one payload of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PayloadKey {
    pub execution: ExecutionId,
    pub slot: Slot,
}
