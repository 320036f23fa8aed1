//! How many requests one caller may send.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_api::Problem;
use ff_core::registry::SecretHash;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// After how many requests callers that have been silent are forgotten.
const FORGET_EVERY: u32 = 10_000;

/// Whoever sends requests: the holder of a token that is good, or an address. A token that is none counts for its
/// address, or whoever makes them up would never come to an end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    Token(SecretHash),
    Address(Option<IpAddr>),
}

impl Sender {
    /// Whoever sends from an address. Of IPv6 a network counts: everybody has a whole one, and all the addresses in it.
    pub fn at(address: Option<IpAddr>) -> Sender {
        Sender::Address(address.map(|it| match it.to_canonical() {
            IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() & (u128::MAX << 64))),
            it => it,
        }))
    }
}

/// Counts the requests of each caller; lets everything pass if there is no limit.
#[derive(Debug)]
pub struct Rates {
    limiter: Option<DefaultKeyedRateLimiter<Sender>>,
    seen: AtomicU32,
}

impl Rates {
    /// So many requests a second, and as many at once.
    pub fn new(per_second: u32) -> Rates {
        let quota = NonZeroU32::new(per_second).map(Quota::per_second);
        Rates { limiter: quota.map(RateLimiter::keyed), seen: AtomicU32::new(0) }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    pub fn check(&self, sender: &Sender) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.seen.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            limiter.retain_recent();
        }
        limiter.check_key(sender).map_err(|_| {
            let detail = "this caller sends more requests than the server lets it; slow down";
            Problem::new(429, "rate_limited", "Too many requests", detail).retryable()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_rate_and_no_limit_lets_everything_pass() {
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|it| Sender::Address(it.parse().ok()));
        let rates = Rates::new(2);
        let passed = (0..5).filter(|_| rates.check(&one).is_ok()).count();
        assert_eq!(passed, 2);
        assert!(rates.check(&two).is_ok(), "another caller");
        assert!(rates.check(&Sender::Token(SecretHash::of("x"))).is_ok(), "a token counts for itself");
        let at = |text: &str| Sender::at(text.parse().ok());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"), "one network");
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), one);
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        let free = Rates::new(0);
        assert!((0..1_000).all(|_| free.check(&one).is_ok()));
        assert!(rates.is_limited() && !free.is_limited());
    }
}
