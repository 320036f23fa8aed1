//! Inputs and results: bytes that are carried and never parsed.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// JSON as it is, byte for byte, and everything else in base64.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    content_type: Option<Arc<str>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// A value that is there, also if it is null.
pub fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Payload {
    /// The bytes as the one JSON value that they are, if their type says so and it is true.
    pub fn raw_json(&self) -> Option<Box<RawValue>> {
        let text = std::str::from_utf8(&self.bytes).ok().filter(|_| &*self.content_type == JSON)?;
        // Blanks around a value would be lost.
        serde_json::from_str::<Box<RawValue>>(text).ok().filter(|raw| raw.get().len() == text.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.raw_json();
        let content_type = json.is_none().then(|| self.content_type.clone());
        let base64 = json.is_none().then(|| crate::base64::encode(&self.bytes));
        Written { content_type, json, base64 }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        let Written { content_type, json, base64 } = Written::deserialize(deserializer)?;
        let bytes = match (json, base64) {
            (Some(json), _) => Bytes::from(Box::<str>::from(json).into_string()),
            (None, Some(text)) => crate::base64::decode(&text)
                .ok_or_else(|| serde::de::Error::custom("a payload is not base64"))?
                .into(),
            (None, None) => Bytes::new(),
        };
        Ok(Payload { content_type: content_type.unwrap_or_else(|| Arc::from(JSON)), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_written_and_read_back_byte_for_byte() {
        let other = |bytes: &'static [u8]| Payload { content_type: "text/plain".into(), bytes: bytes.into() };
        let cases = [
            (Payload::json(r#"{"a":  1.50}"#), r#"{"json":{"a":  1.50}}"#),
            (Payload::json("null"), r#"{"json":null}"#),
            (Payload::json(" 1"), r#"{"type":"application/json","base64":"IDE="}"#),
            (Payload::json(""), r#"{"type":"application/json","base64":""}"#),
            (other(b"\xff"), r#"{"type":"text/plain","base64":"/w=="}"#),
        ];
        for (payload, text) in cases {
            assert_eq!(serde_json::to_string(&payload).unwrap(), text);
            assert_eq!(serde_json::from_str::<Payload>(text).unwrap(), payload);
        }
    }
}
