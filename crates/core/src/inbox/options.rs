//! The options of a posted row: a JSON object with the names that the SDK uses.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Ms;
use crate::commands::When;
use crate::name::Capability;
use crate::policy::Policy;
use crate::rejection::Invalid;

const OPTIONS_BYTES_MAX: usize = 64 << 10;
const NAMES: &str = "priority, delay, run_at, deadline, deadline_at, tags, capabilities and policy";

#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    pub priority: i8,
    pub start: Option<When>,
    pub deadline: Option<When>,
    pub tags: BTreeMap<String, String>,
    pub capabilities: Vec<Capability>,
    pub policy: Policy,
}

impl Options {
    /// Reads the object. A name that is given as `null` counts as left out.
    pub fn parse(text: &str) -> Result<Options, Invalid> {
        let size = text.len();
        if size > OPTIONS_BYTES_MAX {
            let problem = format!("has {size} bytes; allowed are at most {OPTIONS_BYTES_MAX}");
            return Err(Invalid::new("options", problem));
        }
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            Invalid::new("options", format!("is not a JSON object ({error}); allowed are {NAMES}"))
        })?;
        let mut options = Options::default();
        for (name, value) in object.into_iter().filter(|(_, value)| !value.is_null()) {
            options.set(&name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), Invalid> {
        match name {
            "priority" => {
                let number = value.as_i64().and_then(|it| i8::try_from(it).ok());
                let fits = number.filter(|it| (-100..=100).contains(it));
                self.priority = fits.ok_or_else(|| wrong("priority", &value, "-100 to 100"))?;
            }
            "delay" => once(&mut self.start, "delay", "run_at", When::In(length("delay", &value)?))?,
            "run_at" => once(&mut self.start, "run_at", "delay", When::At(time("run_at", &value)?))?,
            "deadline" => {
                let when = When::In(length("deadline", &value)?);
                once(&mut self.deadline, "deadline", "deadline_at", when)?;
            }
            "deadline_at" => {
                let when = When::At(time("deadline_at", &value)?);
                once(&mut self.deadline, "deadline_at", "deadline", when)?;
            }
            "tags" => self.tags = typed("tags", value)?,
            "capabilities" => self.capabilities = typed("capabilities", value)?,
            "policy" => self.policy = typed("policy", value)?,
            _ => {
                let name: String = name.chars().take(80).collect();
                return Err(Invalid::new("options", format!("has the name {name:?}; allowed are {NAMES}")));
            }
        }
        Ok(())
    }
}

/// Two names for one thing must not both be given.
fn once(
    place: &mut Option<When>,
    name: &'static str,
    other: &'static str,
    when: When,
) -> Result<(), Invalid> {
    match place.replace(when) {
        None => Ok(()),
        Some(_) => Err(Invalid::new(name, format!("is given beside {other}; allowed is one of the two"))),
    }
}

fn length(field: &'static str, value: &Value) -> Result<Ms, Invalid> {
    match (value.as_i64(), value.as_str()) {
        (Some(ms), _) => Ok(ms),
        (_, Some(text)) => crate::duration::parse(field, text),
        _ => Err(wrong(field, value, "milliseconds and durations such as \"30s\", \"5m\" or \"2h\"")),
    }
}

fn time(field: &'static str, value: &Value) -> Result<Ms, Invalid> {
    value.as_i64().ok_or_else(|| wrong(field, value, "milliseconds since 1970"))
}

fn typed<T: DeserializeOwned>(field: &'static str, value: Value) -> Result<T, Invalid> {
    serde_json::from_value(value).map_err(|error| Invalid::new(field, format!("does not fit: {error}")))
}

fn wrong(field: &'static str, value: &Value, allowed: &str) -> Invalid {
    let shown: String = value.to_string().chars().take(80).collect();
    Invalid::new(field, format!("is {shown}; allowed are {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_milliseconds_or_durations_and_null_is_nothing() {
        for (text, start) in [
            ("{}", None),
            (r#"{"delay":null,"tags":null}"#, None),
            (r#"{"delay":1500}"#, Some(When::In(1_500))),
            (r#"{"delay":"90s"}"#, Some(When::In(90_000))),
            (r#"{"run_at":1767225600000}"#, Some(When::At(1_767_225_600_000))),
        ] {
            assert_eq!(Options::parse(text).unwrap(), Options { start, ..Options::default() }, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_is_allowed() {
        let long = format!(r#"{{"tags":{{"a":"{}"}}}}"#, "x".repeat(OPTIONS_BYTES_MAX));
        for (text, problem) in [
            ("", "options is not a JSON object"),
            ("[]", "options is not a JSON object"),
            ("{\"priority\":", "options is not a JSON object"),
            (r#"{"prio":1}"#, "options has the name \"prio\"; allowed are priority, delay,"),
            (r#"{"priority":101}"#, "priority is 101; allowed are -100 to 100"),
            (r#"{"priority":"high"}"#, "priority is \"high\"; allowed are -100 to 100"),
            (r#"{"delay":"soon"}"#, "delay is \"soon\"; allowed are durations"),
            (r#"{"delay":1.5}"#, "delay is 1.5; allowed are milliseconds and durations"),
            (r#"{"run_at":"tomorrow"}"#, "run_at is \"tomorrow\"; allowed are milliseconds since 1970"),
            (r#"{"delay":1,"run_at":2}"#, "run_at is given beside delay; allowed is one of the two"),
            (r#"{"deadline":1,"deadline_at":2}"#, "deadline_at is given beside deadline"),
            (r#"{"tags":["a"]}"#, "tags does not fit: "),
            (r#"{"capabilities":["a b"]}"#, "capabilities does not fit: capability contains ' '"),
            (r#"{"policy":{"atempts":3}}"#, "policy does not fit: unknown field `atempts`"),
            (&long, "options has 65"),
        ] {
            let error = Options::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
