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
    /// Who sent it, as a server has found out; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Box<str>>,
    /// The child execution that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionId>,
}

impl Arrived {
    /// The end of a child execution.
    pub fn child(id: ExecutionId) -> Arrived {
        Arrived { number: 0, name: None, waitpoint: None, source: None, principal: None, child: Some(id) }
    }

    /// Who counts as its sender.
    pub fn sender(&self) -> Sender<'_> {
        Sender { principal: self.principal.as_deref(), source: self.source.as_deref() }
    }
}

/// Who sends a signal: what is known of it, and what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender<'a> {
    pub principal: Option<&'a str>,
    pub source: Option<&'a str>,
}

impl<'a> Sender<'a> {
    /// The one name it counts under. What somebody says of itself counts only where nobody knows better: otherwise one
    /// sender would count as many, under as many names as it likes.
    pub fn name(self) -> Option<&'a str> {
        self.principal.or(self.source)
    }

    /// Whether a name that was written down is its own. One who is known may have acted for others under its own name,
    /// as in `deploys/ada`, and is still the same.
    pub fn is(self, written: &str) -> bool {
        let acts_for = |known: &str| written.strip_prefix(known).is_some_and(|rest| rest.starts_with('/'));
        self.name() == Some(written) || self.principal.is_some_and(acts_for)
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
    /// What let a signal in: the token of its waitpoint, whoever held it, or the access token of its sender.
    Via {
        Token = "token",
        Access = "access",
    }
);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_without_a_principal_reads_back() {
        let kept: Arrived = serde_json::from_str(r#"{"number":1,"source":"ann"}"#).unwrap();
        assert_eq!(kept.sender(), Sender { principal: None, source: Some("ann") });
        assert_eq!(serde_json::to_string(&kept).unwrap(), r#"{"number":1,"source":"ann"}"#);
    }
}
