//! Suspension: an execution that is parked until signals arrive, a time passes or an operator says so.
//!
//! What arrives for an execution is kept in its [`Mailbox`], which is part of its record: a signal, the suspension it
//! ends and the timer it makes pointless change in one commit, in whatever order they come.

mod condition;
mod signal;
pub mod token;
mod waitpoint;

use serde::{Deserialize, Serialize};

pub use condition::{Condition, Distinct, Match};
pub use signal::{Arrived, Effect, Ignored, Sender, Signal, Via};
pub use token::{SigningKey, Token, TokenText};
pub use waitpoint::{ClosedWaitpoint, Digest, Waitpoint, WaitpointEntry, WaitpointId};

use crate::Ms;
use crate::id::ExecutionId;
use crate::state::{Reason, words};
use crate::step::StepPlace;

/// How many closed waitpoints are remembered, so that whoever comes too late hears so.
const CLOSED_KEPT: usize = 16;

words!(
    /// What happens when a suspension has lasted too long.
    OnTimeout {
        Fail = "fail",
        Cancel = "cancel",
        Expire = "expire",
        Resume = "resume",
        Escalate = "escalate",
    }
);

words!(
    /// What ended a suspension.
    ResumedBy {
        Signals = "signals",
        Timeout = "timeout",
        Operator = "operator",
    }
);

/// What an execution waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    pub condition: Condition,
    pub reason: Reason,
    pub since: Ms,
    /// When it has lasted too long; absent if it may last for ever, or has been escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<Ms>,
    pub on_timeout: OnTimeout,
    /// The step under which its end is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepPlace>,
}

/// How the newest suspension ended: what the worker is handed when the attempt goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    pub by: ResumedBy,
    pub at: Ms,
    /// The numbers of the signals that satisfied it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<u32>,
    /// Child executions that ended and were waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ExecutionId>,
}

/// What has arrived for an execution, and what it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mailbox {
    /// Open waitpoints, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waitpoints: Vec<Waitpoint>,
    /// The newest closed ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedWaitpoint>,
    /// How many waitpoints were ever opened; they are numbered from 1.
    pub opened: u32,
    /// Signals that no suspension has used yet, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Arrived>,
    /// How many signals were ever kept; they are numbered from 1.
    pub received: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumption: Option<Resumption>,
    /// Child executions that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ExecutionId>,
}

impl Mailbox {
    pub fn waitpoint(&self, number: u32) -> Option<&Waitpoint> {
        self.waitpoints.iter().find(|it| it.number == number)
    }

    /// The waitpoint that a signal with this name is for.
    pub fn waitpoint_named(&self, name: &str) -> Option<&Waitpoint> {
        self.waitpoints.iter().find(|it| it.name.as_deref() == Some(name))
    }

    /// Closes a waitpoint; signals that came through it and are not used stay.
    pub fn close(&mut self, number: u32) -> Option<Waitpoint> {
        let at = self.waitpoints.iter().position(|it| it.number == number)?;
        let waitpoint = self.waitpoints.remove(at);
        if self.closed.len() == CLOSED_KEPT {
            self.closed.remove(0);
        }
        self.closed.push(waitpoint.closed());
        Some(waitpoint)
    }

    /// When the first open waitpoint expires.
    pub fn next_expiry(&self) -> Option<Ms> {
        self.waitpoints.iter().filter_map(|it| it.expires_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_with_a_field_that_is_not_kept_any_more_is_read() {
        let stored = r#"{"opened":2,"received":3,"started":4}"#;
        let mailbox: Mailbox = serde_json::from_str(stored).unwrap();
        assert_eq!(mailbox, Mailbox { opened: 2, received: 3, ..Mailbox::default() });
    }
}
