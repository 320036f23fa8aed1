//! How an execution is retried and how long things may take.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::duration;
use crate::limits::Limits;
use crate::rejection::Invalid;

/// What a lost lease costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseLoss {
    /// The work runs again without spending an attempt, up to `losses_max` losses in a row.
    #[default]
    Uncounted,
    /// Each loss spends an attempt; with none left the execution ends `expired`.
    Counts,
}

/// How a backoff is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    None,
    /// A delay drawn evenly from zero to the backoff.
    Full,
}

/// How long to wait before the next try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    #[serde(deserialize_with = "duration::read")]
    pub initial_ms: Ms,
    /// 1 makes the backoff fixed.
    pub factor: f64,
    #[serde(deserialize_with = "duration::read")]
    pub max_ms: Ms,
    pub jitter: Jitter,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { initial_ms: 1_000, factor: 2.0, max_ms: 60_000, jitter: Jitter::Full }
    }
}

impl Backoff {
    /// How long to wait after the `failures`-th failure in a row (counted from 1).
    pub fn delay_ms(&self, failures: u32, seed: u64) -> Ms {
        let exponent = failures.saturating_sub(1).min(1_000) as f64;
        let full =
            (self.initial_ms as f64 * self.factor.powf(exponent)).min(self.max_ms as f64).max(0.0) as Ms;
        match self.jitter {
            Jitter::None => full,
            Jitter::Full => (mix(seed) % (full as u64 + 1)) as Ms,
        }
    }
}

/// Spreads a seed evenly over 64 bits, so that seeds that are close give delays that are not.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What one execution may cost: tries, time, silence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    #[serde(skip_serializing_if = "is_default_attempts")]
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub backoff: Backoff,
    /// No retry starts later than this after the first attempt of the series became possible.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "duration::read_some")]
    pub max_elapsed_ms: Option<Ms>,
    /// Error codes that are never retried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_retryable: Vec<Box<str>>,
    #[serde(skip_serializing_if = "is_default_lease", deserialize_with = "duration::read")]
    pub lease_ms: Ms,
    /// How long after its end a lease is still left alone.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "duration::read")]
    pub lease_grace_ms: Ms,
    #[serde(skip_serializing_if = "is_default")]
    pub lease_loss: LeaseLoss,
    /// Losses in a row after which an execution ends failed `crash_loop`.
    #[serde(skip_serializing_if = "is_default_losses")]
    pub losses_max: u32,
    /// How long one attempt may hold leases in all.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "duration::read_some")]
    pub attempt_timeout_ms: Option<Ms>,
    /// How long it may wait for a worker each time it becomes ready.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "duration::read_some")]
    pub schedule_to_start_ms: Option<Ms>,
    #[serde(skip_serializing_if = "is_default_replays")]
    pub replays_max: u32,
}

const ATTEMPTS: u32 = 3;
const LEASE_MS: Ms = 30_000;
const LOSSES_MAX: u32 = 5;
const REPLAYS_MAX: u32 = 10;

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn is_default_attempts(value: &u32) -> bool {
    *value == ATTEMPTS
}
fn is_default_lease(value: &Ms) -> bool {
    *value == LEASE_MS
}
fn is_default_losses(value: &u32) -> bool {
    *value == LOSSES_MAX
}
fn is_default_replays(value: &u32) -> bool {
    *value == REPLAYS_MAX
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_attempts: ATTEMPTS,
            backoff: Backoff::default(),
            max_elapsed_ms: None,
            non_retryable: Vec::new(),
            lease_ms: LEASE_MS,
            lease_grace_ms: 0,
            lease_loss: LeaseLoss::Uncounted,
            losses_max: LOSSES_MAX,
            attempt_timeout_ms: None,
            schedule_to_start_ms: None,
            replays_max: REPLAYS_MAX,
        }
    }
}

impl Policy {
    pub fn validate(&self, limits: &Limits) -> Result<(), Invalid> {
        let horizon = limits.horizon_ms_max;
        range("policy.max_attempts", self.max_attempts.into(), 1, 1_000)?;
        range("policy.lease_ms", self.lease_ms, 100, 24 * 3_600_000)?;
        range("policy.lease_grace_ms", self.lease_grace_ms, 0, 3_600_000)?;
        range("policy.losses_max", self.losses_max.into(), 1, 1_000)?;
        range("policy.replays_max", self.replays_max.into(), 0, 1_000)?;
        range("policy.backoff.initial_ms", self.backoff.initial_ms, 0, horizon)?;
        range("policy.backoff.max_ms", self.backoff.max_ms, 0, horizon)?;
        for (field, value) in [
            ("policy.max_elapsed_ms", self.max_elapsed_ms),
            ("policy.attempt_timeout_ms", self.attempt_timeout_ms),
            ("policy.schedule_to_start_ms", self.schedule_to_start_ms),
        ] {
            if let Some(value) = value {
                range(field, value, 1, horizon)?;
            }
        }
        if !(1.0..=100.0).contains(&self.backoff.factor) {
            let problem = format!("is {}; allowed are 1 to 100", self.backoff.factor);
            return Err(Invalid::new("policy.backoff.factor", problem));
        }
        if self.non_retryable.len() > 64
            || self.non_retryable.iter().any(|c| c.len() > 128 || c.contains('\0'))
        {
            let problem = "allows at most 64 codes of at most 128 bytes without U+0000";
            return Err(Invalid::new("policy.non_retryable", problem));
        }
        Ok(())
    }
}

pub(crate) fn range(field: &'static str, value: i64, min: i64, max: i64) -> Result<(), Invalid> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("is {value}; allowed are {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let backoff = Backoff { jitter: Jitter::None, ..Backoff::default() };
        let delays: Vec<Ms> = (1..=8).map(|n| backoff.delay_ms(n, 0)).collect();
        assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(backoff.delay_ms(u32::MAX, 0), 60_000);
    }

    #[test]
    fn full_jitter_stays_below_the_backoff_and_spreads() {
        let backoff = Backoff::default();
        let delays: Vec<Ms> = (0..1_000).map(|seed| backoff.delay_ms(3, seed)).collect();
        assert!(delays.iter().all(|d| (0..=4_000).contains(d)));
        assert!(delays.iter().any(|d| *d < 400) && delays.iter().any(|d| *d > 3_600));
        assert_eq!(backoff.delay_ms(3, 7), backoff.delay_ms(3, 7));
    }

    #[test]
    fn a_default_policy_is_stored_as_nothing_and_reads_back() {
        let text = serde_json::to_string(&Policy::default()).unwrap();
        assert_eq!(text, "{}");
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), Policy::default());
        assert!(
            serde_json::from_str::<Policy>(r#"{"atempts":3}"#).unwrap_err().to_string().contains("atempts")
        );
    }

    #[test]
    fn lengths_of_time_are_milliseconds_or_text() {
        let text = r#"{"lease_ms":"5m","attempt_timeout_ms":"2h","lease_grace_ms":7,"max_elapsed_ms":null,
                       "backoff":{"initial_ms":"250ms","max_ms":"1m"}}"#;
        let policy: Policy = serde_json::from_str(text).unwrap();
        assert_eq!((policy.lease_ms, policy.attempt_timeout_ms), (300_000, Some(7_200_000)));
        assert_eq!((policy.lease_grace_ms, policy.max_elapsed_ms), (7, None));
        assert_eq!((policy.backoff.initial_ms, policy.backoff.max_ms), (250, 60_000));
        let again: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
        for wrong in [r#"{"lease_ms":"soon"}"#, r#"{"lease_ms":1.5}"#, r#"{"backoff":{"max_ms":[]}}"#] {
            let error = serde_json::from_str::<Policy>(wrong).unwrap_err().to_string();
            assert!(error.contains("30s"), "{error}");
        }
    }

    #[test]
    fn values_outside_their_range_are_named() {
        let bad = Policy { max_attempts: 0, ..Policy::default() };
        let text = bad.validate(&Limits::default()).unwrap_err().to_string();
        assert_eq!(text, "policy.max_attempts is 0; allowed are 1 to 1000");
        let bad = Policy { attempt_timeout_ms: Some(-5), ..Policy::default() };
        assert!(
            bad.validate(&Limits::default()).unwrap_err().to_string().contains("attempt_timeout_ms is -5")
        );
    }
}
