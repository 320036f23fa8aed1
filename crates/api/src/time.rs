//! Times and lengths of time as they are written.

use ff_core::Ms;
use ff_core::commands::When;
use ff_core::rejection::Invalid;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time: given out as RFC 3339 in UTC, taken as that or as milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
pub struct Time(pub Ms);

/// The latest time that RFC 3339 can write.
const LATEST: Ms = 253_402_300_799_999;

impl Time {
    pub fn parse(text: &str) -> Result<Time, String> {
        let refused = || {
            let shown: String = text.chars().take(40).collect();
            format!(
                "{shown:?} is not a time; write it like 2027-01-31T12:00:00Z or in milliseconds since 1970"
            )
        };
        match text.parse::<Ms>() {
            Ok(at) if (0..=LATEST).contains(&at) => Ok(Time(at)),
            Ok(_) => Err(refused()),
            Err(_) => {
                let time: jiff::Timestamp = text.parse().map_err(|_| refused())?;
                Ok(Time(time.as_millisecond()))
            }
        }
    }

    pub fn text(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| self.0.to_string(), |time| format!("{time:.3}"))
    }
}

impl From<Ms> for Time {
    fn from(at: Ms) -> Time {
        Time(at)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Time;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time like 2027-01-31T12:00:00Z or milliseconds since 1970")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                Time::parse(text).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, at: i64) -> Result<Time, E> {
                Time::parse(&at.to_string()).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, at: u64) -> Result<Time, E> {
                Time::parse(&at.to_string()).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A length of time: milliseconds, or text such as `30s`, `5m`, `2h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = u64))]
pub struct Span(pub Ms);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        ff_core::duration::read(deserializer).map(Span)
    }
}

/// A moment that can be given as a time or as a length of time from now; not as both.
pub fn when(
    (at_field, at): (&'static str, Option<Time>),
    (span_field, span): (&'static str, Option<Span>),
) -> Result<Option<When>, Invalid> {
    match (at, span) {
        (Some(_), Some(_)) => {
            Err(Invalid::new(at_field, format!("is given together with {span_field}; give one of them")))
        }
        (Some(at), None) => Ok(Some(When::At(at.0))),
        (None, Some(span)) => Ok(Some(When::In(span.0))),
        (None, None) => Ok(None),
    }
}

/// The two ways in which a moment is written.
pub fn split(when: Option<When>) -> (Option<Time>, Option<Span>) {
    match when {
        Some(When::At(at)) => (Some(Time(at)), None),
        Some(When::In(ms)) => (None, Some(Span(ms))),
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_in_both_forms_and_given_in_one() {
        for text in [r#""2026-01-01T00:00:00Z""#, r#""2026-01-01T01:00:00+01:00""#, "1767225600000"] {
            let time: Time = serde_json::from_str(text).unwrap();
            assert_eq!(time, Time(1_767_225_600_000), "{text}");
            assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-01-01T00:00:00.000Z""#);
        }
        for text in [r#""soon""#, "-1", "1e300", r#""99999999999999999""#, "true"] {
            assert!(serde_json::from_str::<Time>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_milliseconds_or_words() {
        assert_eq!(serde_json::from_str::<Span>("1500").unwrap(), Span(1_500));
        assert_eq!(serde_json::from_str::<Span>(r#""2h""#).unwrap(), Span(7_200_000));
        assert!(serde_json::from_str::<Span>(r#""soon""#).unwrap_err().to_string().contains("allowed are"));
    }

    #[test]
    fn a_moment_is_given_once() {
        let both = when(("start_at", Some(Time(5))), ("delay_ms", Some(Span(5))));
        assert_eq!(
            both.unwrap_err().to_string(),
            "start_at is given together with delay_ms; give one of them"
        );
    }
}
