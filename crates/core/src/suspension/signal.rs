//! Signals: what outsiders deliver.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::id::ExecutionId;
use crate::name::SignalName;
use crate::payload::Payload;
use crate::state::words;

/// A signal that waits to be used. What it carries is stored apart from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Its number among the signals of its execution; 0 for the end of a child, which is no signal.
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SignalName>,
    /// The waitpoint it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waitpoint: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<str>>,
    /// The child execution that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionId>,
}

impl Arrived {
    /// The end of a child execution.
    pub fn child(id: ExecutionId) -> Arrived {
        Arrived { number: 0, name: None, waitpoint: None, source: None, child: Some(id) }
    }
}

/// A signal as it is kept with its execution. Written once, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    pub execution: ExecutionId,
    /// From 1, in the order of arrival.
    pub number: u32,
    pub at: Ms,
    pub name: Option<SignalName>,
    pub waitpoint: Option<u32>,
    pub source: Option<Box<str>>,
    pub correlation: Option<Box<str>>,
    pub payload: Payload,
}

words!(
    /// Why a signal was not taken.
    Ignored {
        Closed = "waitpoint_closed",
        NoSource = "no_source",
        NotAnApprover = "not_an_approver",
        OwnRequest = "own_request",
        SameSource = "same_source",
        OtherAction = "other_action",
    }
);

/// What a signal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", content = "why", rename_all = "snake_case")]
pub enum Effect {
    /// The suspension is over.
    Satisfied,
    /// It counts for the suspension, which waits for more.
    Counted,
    /// Kept until somebody waits for it.
    Buffered,
    /// The same key was used before; nothing was kept.
    Duplicate,
    Ignored(Ignored),
}

impl Effect {
    pub fn word(self) -> &'static str {
        match self {
            Effect::Satisfied => "satisfied",
            Effect::Counted => "counted",
            Effect::Buffered => "buffered",
            Effect::Duplicate => "duplicate",
            Effect::Ignored(_) => "ignored",
        }
    }
}
