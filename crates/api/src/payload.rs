//! Payloads inside documents: JSON as it is, anything else with its type in base64.

use bytes::Bytes;
use ff_core::Payload;
pub use ff_core::base64::{decode, encode};
pub use ff_core::payload::present;
use ff_core::rejection::Invalid;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Any JSON value, carried and not looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Box<RawValue>);

#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
    use utoipa::openapi::{RefOr, Schema};

    impl utoipa::PartialSchema for super::Json {
        fn schema() -> RefOr<Schema> {
            let any =
                ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON value"));
            any.build().into()
        }
    }

    impl utoipa::ToSchema for super::Json {}
}

impl Json {
    pub fn of<T: Serialize>(value: &T) -> Json {
        Json(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

request! {
    /// Bytes that are not JSON.
    pub struct Encoded {
        pub content_type: String,
        /// Standard base64 with padding.
        pub base64: String,
    }
}

/// A payload from the two fields it may be in; `null` if it is in neither.
pub fn join(field: &'static str, json: Option<Json>, encoded: Option<Encoded>) -> Result<Payload, Invalid> {
    match (json, encoded) {
        (Some(_), Some(_)) => {
            Err(Invalid::new(field, format!("is given together with {field}_encoded; give one of them")))
        }
        (Some(json), None) => Ok(Payload::json(Bytes::from(String::from(Box::<str>::from(json.0))))),
        (None, Some(encoded)) => {
            let bytes = decode(&encoded.base64).ok_or_else(|| {
                Invalid::new(field, "has base64 that cannot be read; use the standard alphabet")
            })?;
            Ok(Payload { content_type: encoded.content_type.into(), bytes: bytes.into() })
        }
        (None, None) => Ok(Payload::json("null")),
    }
}

/// The field in which a payload is written: JSON byte for byte, everything else encoded.
pub fn split(payload: &Payload) -> (Option<Json>, Option<Encoded>) {
    if let Some(raw) = payload.raw_json() {
        return (Some(Json(raw)), None);
    }
    let encoded = Encoded { content_type: payload.content_type.to_string(), base64: encode(&payload.bytes) };
    (None, Some(encoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_as_it_is_byte_for_byte() {
        let payload = Payload::json(r#"{"a":  [1, 2.50]}"#);
        let (json, encoded) = split(&payload);
        assert_eq!(json.as_ref().unwrap().0.get(), r#"{"a":  [1, 2.50]}"#);
        assert_eq!(join("input", json, encoded), Ok(payload));
    }

    #[test]
    fn what_is_not_quite_json_comes_back_as_it_was() {
        for bytes in [&b" 1"[..], b"", b"[1,", b"\xff"] {
            let payload = Payload::json(bytes.to_vec());
            let (json, encoded) = split(&payload);
            assert!(json.is_none());
            assert_eq!(join("input", json, encoded), Ok(payload));
        }
    }
}
