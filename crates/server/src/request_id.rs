//! The ids of requests.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderValue};

/// Makes ids for requests that bring none. They are told to everybody, so they say nothing of the numbers that other ids
/// are made of: they come out of a keyed hash of their own, which cannot be turned round.
#[derive(Debug, Default)]
pub struct RequestIds {
    key: RandomState,
    made: AtomicU64,
}

impl RequestIds {
    /// The caller's id for the request if it is fit to be written down, or a new one.
    pub fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let fits = |value: &&HeaderValue| {
            (1..=64).contains(&value.len())
                && value.as_bytes().iter().all(|it| it.is_ascii_alphanumeric() || *it == b'-' || *it == b'_')
        };
        let given = headers.get("x-request-id").filter(fits).cloned();
        given.unwrap_or_else(|| {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            HeaderValue::from_str(&format!("{:016x}", self.key.hash_one(number)))
                .unwrap_or(HeaderValue::from_static("none"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_say_nothing_of_how_many_there_were() {
        let (ids, others) = (RequestIds::default(), RequestIds::default());
        let none = HeaderMap::new();
        let first = ids.of(&none);
        assert_ne!(first, ids.of(&none));
        assert_ne!(first, others.of(&none), "each server has a key of its own");
    }
}
