//! Durations as people write them: `250ms`, `30s`, `5m`, `2h`, `7d`, or a number of milliseconds.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::Ms;
use crate::rejection::Invalid;

const UNITS: [(&str, Ms); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];

/// Reads a duration; `field` is named in the error.
///
/// # Example
/// ```
/// assert_eq!(ff_core::duration::parse("timeout", "90s"), Ok(90_000));
/// assert!(ff_core::duration::parse("timeout", "soon").is_err());
/// ```
pub fn parse(field: &'static str, text: &str) -> Result<Ms, Invalid> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = if unit.is_empty() {
        Some(1)
    } else {
        UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
    };
    number.parse::<Ms>().ok().zip(scale).and_then(|(number, scale)| number.checked_mul(scale)).ok_or_else(
        || {
            let shown: String = text.chars().take(40).collect();
            Invalid::new(
                field,
                format!("is {shown:?}; allowed are durations such as 250ms, 30s, 5m, 2h or 7d"),
            )
        },
    )
}

/// Reads a duration from a document: milliseconds, or text such as `30s`.
///
/// # Errors
/// If it is neither. A number that is too small or too large goes on to the rules, which name the field.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ms, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = Ms;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("milliseconds or a duration such as 250ms, 30s, 5m, 2h or 7d")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Ms, E> {
            parse("the duration", text).map_err(|error| E::custom(error.to_string()))
        }
        fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Ms, E> {
            Ok(ms)
        }
        fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Ms, E> {
            Ok(Ms::try_from(ms).unwrap_or(Ms::MAX))
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// The same where there may be none.
///
/// # Errors
/// As [`read`].
pub fn read_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ms>, D::Error> {
    struct Given(Ms);
    impl<'de> Deserialize<'de> for Given {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
            read(deserializer).map(Given)
        }
    }
    Ok(Option::<Given>::deserialize(deserializer)?.map(|given| given.0))
}

/// Writes a duration the way a person would: the largest unit that is exact, or seconds with one decimal.
pub fn show(ms: Ms) -> String {
    if ms < 0 {
        return format!("-{}", show(-ms));
    }
    match UNITS.iter().rev().find(|(_, scale)| ms >= *scale && ms % scale == 0) {
        Some((name, scale)) => format!("{}{name}", ms / scale),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_in_every_unit_and_nothing_else_does() {
        let good =
            [("0", 0), ("250", 250), ("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)];
        for (text, ms) in good {
            assert_eq!(parse("delay", text), Ok(ms), "{text}");
        }
        for bad in ["", "s", "-5s", "1.5h", "5 parsecs", "99999999999999999999d"] {
            assert!(parse("delay", bad).unwrap_err().to_string().starts_with("delay is"), "{bad}");
        }
    }

    #[test]
    fn showing_a_duration_parses_back() {
        for ms in [0, 1, 999, 1_000, 61_000, 3_600_000, 86_400_000, 90_061_001] {
            assert_eq!(parse("x", &show(ms)), Ok(ms));
        }
    }
}
