//! Values as people write them: durations, times, tags, states.

use std::time::Duration;

use ff_store::{Clock, SystemClock};
use flowfabric::{CancelPolicy, Family, FlowState, Ms, On, PublicState, Reason};

const TIMES: &str = "allowed are RFC 3339 times such as 2026-01-31T12:00:00Z and milliseconds since 1970";

/// `30s`, `5m`, `2h`, `7d`, `250ms`, or a number of milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let ms = ff_core::duration::parse("it", text).map_err(|invalid| invalid.to_string())?;
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// A point in time: RFC 3339, or milliseconds since 1970.
pub fn time(text: &str) -> Result<Ms, String> {
    if let Ok(ms) = text.parse::<Ms>() {
        return if ms >= 0 { Ok(ms) } else { Err(format!("it is negative; {TIMES}")) };
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) if time.as_millisecond() >= 0 => Ok(time.as_millisecond()),
        Ok(_) => Err(format!("it is before 1970; {TIMES}")),
        Err(_) => Err(format!("it is not a time; {TIMES}")),
    }
}

/// A point in time, or a length of time with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Ms),
    In(Duration),
}

/// `5m` is a length; a bare number is a time, because lengths in milliseconds say `ms`.
pub fn when(text: &str) -> Result<When, String> {
    if text.parse::<Ms>().is_err()
        && let Ok(length) = duration(text)
    {
        return Ok(When::In(length));
    }
    time(text).map(When::At).map_err(|error| format!("{error}, and durations such as 30s, 5m or 2h"))
}

/// A time in the past: as [`time`], or how long ago.
pub fn since(text: &str) -> Result<Ms, String> {
    match when(text)? {
        When::At(at) => Ok(at),
        When::In(ago) => Ok(now().saturating_sub(Ms::try_from(ago.as_millis()).unwrap_or(Ms::MAX))),
    }
}

pub fn now() -> Ms {
    SystemClock.now()
}

/// `key=value`.
pub fn tag(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or("a tag is written key=value, such as team.name=payments")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `key=value` sets, `key-` removes.
pub fn tag_change(text: &str) -> Result<(String, Option<String>), String> {
    match (tag(text), text.strip_suffix('-')) {
        (Ok((key, value)), _) => Ok((key, Some(value))),
        (Err(_), Some(key)) => Ok((key.to_owned(), None)),
        (Err(_), None) => Err("key=value sets a tag, and key- removes one".to_owned()),
    }
}

pub fn state(word: &str) -> Result<PublicState, String> {
    PublicState::from_word(word).ok_or_else(|| allowed(PublicState::ALL.iter().map(|it| it.word())))
}

pub fn reason(word: &str) -> Result<Reason, String> {
    Reason::from_word(word).ok_or_else(|| allowed(Reason::ALL.iter().map(|it| it.word())))
}

pub fn flow_state(word: &str) -> Result<FlowState, String> {
    FlowState::from_word(word).ok_or_else(|| allowed(FlowState::ALL.iter().map(|it| it.word())))
}

pub fn cancel_policy(word: &str) -> Result<CancelPolicy, String> {
    CancelPolicy::from_word(word).ok_or_else(|| allowed(CancelPolicy::ALL.iter().map(|it| it.word())))
}

pub fn on(word: &str) -> Result<On, String> {
    On::from_word(word).ok_or_else(|| allowed(On::ALL.iter().map(|it| it.word())))
}

pub fn family(word: &str) -> Result<Family, String> {
    Family::from_word(word).ok_or_else(|| allowed(Family::ALL.iter().map(|it| it.word())))
}

fn allowed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("allowed are {}", words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_milliseconds_and_a_length_has_a_unit() {
        assert_eq!(time("2026-01-01T00:00:00Z"), Ok(1_767_225_600_000));
        assert_eq!(time("1767225600000"), Ok(1_767_225_600_000));
        assert_eq!(when("5m"), Ok(When::In(Duration::from_secs(300))));
        assert_eq!(when("1767225600000"), Ok(When::At(1_767_225_600_000)));
        for bad in ["-5", "yesterday", "2026-01-01", "1969-01-01T00:00:00Z", "-5m"] {
            assert!(when(bad).unwrap_err().contains("allowed are"), "{bad}");
        }
    }

    #[test]
    fn tags_are_set_and_removed() {
        assert_eq!(tag_change("a=b=c"), Ok(("a".to_owned(), Some("b=c".to_owned()))));
        assert_eq!(tag_change("a-"), Ok(("a".to_owned(), None)));
        assert!(tag_change("a").is_err());
    }
}
