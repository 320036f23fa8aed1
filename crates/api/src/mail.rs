//! Signals, waitpoints, signing keys and recorded steps.

use ff_core::ExecutionId;
use ff_core::commands::{SendSignal, To};
use ff_core::name::SignalName;
use ff_core::rejection::Invalid;
use ff_core::step::Step;
use ff_core::suspension::{Effect, Signal, SigningKey, WaitpointEntry, WaitpointId};

use crate::payload::{self, Encoded, Json};
use crate::time::{Span, Time};

request! {
    /// A signal to be delivered.
    pub struct SignalRequest {
        /// Its name; that of the waitpoint if it is left out.
        pub name: Option<String>,
        pub payload: Option<Json>,
        pub payload_encoded: Option<Encoded>,
        /// Who sends it; the name of the token's holder if it is left out.
        pub source: Option<String>,
        pub correlation: Option<String>,
        /// The same key again within a day is a duplicate.
        pub key: Option<String>,
        /// SHA-256 of the action that the sender has seen, in hexadecimal digits.
        pub digest: Option<String>,
        /// A token for the waitpoint, if it does not come in the Authorization header.
        pub token: Option<String>,
    }
}

impl SignalRequest {
    pub fn command(self, to: To) -> Result<SendSignal, Invalid> {
        Ok(SendSignal {
            to,
            name: self.name.as_deref().map(SignalName::parse).transpose()?,
            payload: payload::join("payload", self.payload, self.payload_encoded)?,
            source: self.source.map(Into::into),
            // Nobody says of itself who it is known to be.
            principal: None,
            correlation: self.correlation.map(Into::into),
            key: self.key.map(Into::into),
            digest: self.digest.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<SendSignal> for SignalRequest {
    fn from(it: SendSignal) -> SignalRequest {
        let (payload, payload_encoded) = payload::split(&it.payload);
        SignalRequest {
            name: it.name.map(|name| name.to_string()),
            payload,
            payload_encoded,
            source: it.source.map(String::from),
            correlation: it.correlation.map(String::from),
            key: it.key.map(String::from),
            digest: it.digest.map(|digest| digest.to_string()),
            token: None,
        }
    }
}

answer! {
    /// What a signal did.
    pub struct SignalledDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub execution: ExecutionId,
        /// `satisfied`, `counted`, `buffered`, `duplicate` or `ignored`.
        pub effect: String,
        /// Why it was ignored.
        pub why: Option<String>,
        /// Its number among the signals of the execution, if it was kept.
        pub signal: Option<u32>,
    }
}

impl SignalledDoc {
    pub fn of(execution: ExecutionId, effect: Effect, number: Option<u32>) -> SignalledDoc {
        let why = match effect {
            Effect::Ignored(why) => Some(why.word().to_owned()),
            _ => None,
        };
        SignalledDoc { execution, effect: effect.word().to_owned(), why, signal: number }
    }
}

answer! {
    /// A signal that has arrived.
    pub struct SignalDoc {
        pub number: u32,
        pub at: Time,
        pub name: Option<String>,
        /// The number of the waitpoint it came through.
        pub waitpoint: Option<u32>,
        pub source: Option<String>,
        pub correlation: Option<String>,
        pub payload: Option<Json>,
        pub payload_encoded: Option<Encoded>,
    }
}

impl From<&Signal> for SignalDoc {
    fn from(it: &Signal) -> SignalDoc {
        let (payload, payload_encoded) = payload::split(&it.payload);
        SignalDoc {
            number: it.number,
            at: Time(it.at),
            name: it.name.as_ref().map(|name| name.to_string()),
            waitpoint: it.waitpoint,
            source: it.source.as_deref().map(str::to_owned),
            correlation: it.correlation.as_deref().map(str::to_owned),
            payload,
            payload_encoded,
        }
    }
}

answer! {
    /// A page of signals.
    pub struct SignalPage {
        pub signals: Vec<SignalDoc>,
        /// Ask for those after this number; null on the last page.
        pub next_after: Option<u32>,
    }
}

answer! {
    /// A step that was recorded.
    pub struct RecordedStep {
        pub name: String,
        pub occurrence: u32,
        pub number: u32,
        pub kind: String,
        pub attempt: u32,
        pub started_at: Time,
        pub ended_at: Time,
        pub result: Option<Json>,
        pub result_encoded: Option<Encoded>,
    }
}

impl From<&Step> for RecordedStep {
    fn from(it: &Step) -> RecordedStep {
        let (result, result_encoded) = payload::split(&it.result);
        RecordedStep {
            name: it.key.name.to_string(),
            occurrence: it.key.occurrence,
            number: it.number,
            kind: it.kind.word().to_owned(),
            attempt: it.attempt,
            started_at: Time(it.started_at),
            ended_at: Time(it.ended_at),
            result,
            result_encoded,
        }
    }
}

answer! {
    /// Recorded steps of an execution, in the order of recording.
    pub struct StepsDoc {
        pub steps: Vec<RecordedStep>,
        /// After how many steps the next page starts, if there are more.
        pub next_after: Option<usize>,
    }
}

answer! {
    /// A waitpoint that was opened, with the token for it.
    pub struct OpenedDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub waitpoint: WaitpointId,
        pub expires_at: Option<Time>,
        /// Whoever has it may signal this waitpoint. It is not stored and not shown again.
        pub token: String,
    }
}

answer! {
    /// An open waitpoint.
    pub struct WaitpointDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub waitpoint: WaitpointId,
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub execution: ExecutionId,
        pub namespace: String,
        pub lane: String,
        pub kind: String,
        pub name: Option<String>,
        pub reason: Option<String>,
        pub opened_at: Time,
        pub expires_at: Option<Time>,
        pub digest: Option<String>,
    }
}

impl From<&WaitpointEntry> for WaitpointDoc {
    fn from(it: &WaitpointEntry) -> WaitpointDoc {
        WaitpointDoc {
            waitpoint: it.id,
            execution: it.id.execution,
            namespace: it.namespace.to_string(),
            lane: it.lane.to_string(),
            kind: it.kind.to_string(),
            name: it.name.as_ref().map(|name| name.to_string()),
            reason: it.reason.map(|reason| reason.word().to_owned()),
            opened_at: Time(it.opened_at),
            expires_at: it.expires_at.map(Time),
            digest: it.digest.map(|digest| digest.to_string()),
        }
    }
}

answer! {
    /// A page of open waitpoints.
    pub struct WaitpointPage {
        pub waitpoints: Vec<WaitpointDoc>,
        pub next_cursor: Option<String>,
    }
}

request! {
    /// A wish for a new signing key.
    pub struct Rotation {
        /// How long tokens of the keys before it are still good; a day if it is left out.
        pub grace_ms: Option<Span>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

answer! {
    /// A signing key. Its secret is nowhere.
    pub struct KeyDoc {
        pub id: u32,
        pub created_at: Time,
        /// From when on its tokens are refused; null while it is the newest.
        pub retires_at: Option<Time>,
    }
}

impl From<&SigningKey> for KeyDoc {
    fn from(it: &SigningKey) -> KeyDoc {
        KeyDoc { id: it.id, created_at: Time(it.created_at), retires_at: it.retires_at.map(Time) }
    }
}

answer! {
    /// All signing keys.
    pub struct KeysDoc {
        pub keys: Vec<KeyDoc>,
    }
}
