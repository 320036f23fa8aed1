//! Waitpoints: named places at which an outsider delivers a signal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::id::{BadId, ExecutionId};
use crate::name::{Kind, LaneName, Namespace, SignalName};
use crate::state::Reason;
use crate::step::StepKey;

/// Which waitpoint: the execution it belongs to, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitpointId {
    pub execution: ExecutionId,
    pub number: u32,
}

impl fmt::Display for WaitpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.execution, self.number)
    }
}

impl FromStr for WaitpointId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.chars().take(80).collect());
        let (execution, number) = text.rsplit_once('-').ok_or_else(bad)?;
        // One spelling only: what is signed must not be written in two ways.
        let fits = execution.len() == 36 && number.bytes().all(|it| it.is_ascii_digit());
        if !fits || number.starts_with('0') {
            return Err(bad());
        }
        let execution = execution.parse().map_err(|_| bad())?;
        Ok(WaitpointId { execution, number: number.parse().map_err(|_| bad())? })
    }
}

impl Serialize for WaitpointId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WaitpointId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// SHA-256 of the action that is proposed at a waitpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// That of an action, in the bytes in which both sides have it.
    pub fn of(action: &[u8]) -> Digest {
        use sha2::Digest as _;
        Digest(sha2::Sha256::digest(action).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = crate::rejection::Invalid;

    fn try_from(text: String) -> Result<Digest, Self::Error> {
        let bad = || crate::rejection::Invalid::new("digest", "is not 64 hexadecimal digits of a SHA-256");
        super::token::from_hex(&text).map(Digest).ok_or_else(bad)
    }
}

/// An open waitpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waitpoint {
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SignalName>,
    pub opened_at: Ms,
    /// When it closes by itself and its token ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Only signals of these sources are taken; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Box<str>>,
    /// Who asked; no signal of this source is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Box<str>>,
    /// Whether one source counts once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distinct_sources: bool,
    /// Whether its token alone is not enough: the sender must be known by an access token, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known_sources: bool,
    /// The step that opened it: opening it again gives the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepKey>,
    /// How many signals have come with its token.
    #[serde(default, skip_serializing_if = "crate::policy::is_default")]
    pub token_signals: u32,
}

impl Waitpoint {
    pub(super) fn closed(&self) -> ClosedWaitpoint {
        let Waitpoint { number, expires_at, digest, .. } = *self;
        ClosedWaitpoint { number, expires_at, digest }
    }

    /// Whether a signal must say who sends it.
    pub fn asks_for_source(&self) -> bool {
        self.distinct_sources || self.requester.is_some() || !self.approvers.is_empty()
    }
}

/// What is remembered of a closed waitpoint: what its token was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedWaitpoint {
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// An open waitpoint as it stands in the inbox: in the order of opening, with what people search by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitpointEntry {
    pub id: WaitpointId,
    pub namespace: Namespace,
    pub lane: LaneName,
    pub kind: Kind,
    pub name: Option<SignalName>,
    /// Why its execution is suspended; absent while it is not.
    pub reason: Option<Reason>,
    pub opened_at: Ms,
    pub expires_at: Option<Ms>,
    pub digest: Option<Digest>,
}
