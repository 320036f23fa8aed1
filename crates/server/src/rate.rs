//! How many requests one caller may send.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::http::{HeaderMap, header};
use ff_api::Problem;
use ff_core::registry::SecretHash;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// After how many requests callers that have been silent are forgotten.
const FORGET_EVERY: u32 = 10_000;

/// Whoever sends requests: the holder of a token, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Token(SecretHash),
    Address(Option<IpAddr>),
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

    pub fn check(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.seen.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            limiter.retain_recent();
        }
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sender = match token {
            Some(token) => Sender::Token(SecretHash::of(token)),
            None => Sender::Address(peer),
        };
        limiter.check_key(&sender).map_err(|_| {
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
        let (one, two) = ("10.0.0.1".parse().ok(), "10.0.0.2".parse().ok());
        let none = HeaderMap::new();
        let rates = Rates::new(2);
        let passed = (0..5).filter(|_| rates.check(&none, one).is_ok()).count();
        assert_eq!(passed, 2);
        assert!(rates.check(&none, two).is_ok(), "another caller");
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, axum::http::HeaderValue::from_static("Bearer x"));
        assert!(rates.check(&headers, one).is_ok(), "a token counts for itself");
        let free = Rates::new(0);
        assert!((0..1_000).all(|_| free.check(&none, one).is_ok()));
    }
}
