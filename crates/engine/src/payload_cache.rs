//! Inputs kept in memory for claims to come, within a bound.
//!
//! What was just submitted and what was read ahead for the front of a queue are kept apart, so that a long
//! backlog of submissions does not push out what workers will ask for next.

use std::collections::VecDeque;

use ff_core::{ExecutionId, Payload};
use rustc_hash::FxHashMap;

#[derive(Debug)]
struct Ring {
    map: FxHashMap<ExecutionId, Payload>,
    order: VecDeque<ExecutionId>,
    bytes: usize,
    bytes_max: usize,
}

/// What an entry costs beside its bytes.
const OVERHEAD: usize = 128;

impl Ring {
    fn new(bytes_max: usize) -> Ring {
        Ring { map: FxHashMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    fn put(&mut self, id: ExecutionId, payload: Payload) {
        let size = payload.len() + OVERHEAD;
        if size > self.bytes_max / 4 {
            return;
        }
        self.bytes += size;
        if let Some(before) = self.map.insert(id, payload) {
            self.bytes -= before.len() + OVERHEAD;
        } else {
            self.order.push_back(id);
        }
        // Ids taken out earlier are still in the order; they count as nothing and fall out here.
        while self.bytes > self.bytes_max || self.order.len() > self.bytes_max / OVERHEAD {
            let Some(oldest) = self.order.pop_front() else { break };
            self.take(oldest);
        }
    }

    fn take(&mut self, id: ExecutionId) -> Option<Payload> {
        let payload = self.map.remove(&id)?;
        self.bytes -= payload.len() + OVERHEAD;
        Some(payload)
    }
}

#[derive(Debug)]
pub(crate) struct PayloadCache {
    recent: Ring,
    ahead: Ring,
}

impl PayloadCache {
    pub fn new(bytes_max: usize) -> PayloadCache {
        PayloadCache { recent: Ring::new(bytes_max / 4), ahead: Ring::new(bytes_max - bytes_max / 4) }
    }

    /// An input that was just stored. Under an id that was removed before it is another one.
    pub fn submitted(&mut self, id: ExecutionId, input: Payload) {
        self.ahead.take(id);
        self.recent.put(id, input);
    }

    /// An input that was read ahead.
    pub fn read_ahead(&mut self, id: ExecutionId, input: Payload) {
        self.ahead.put(id, input);
    }

    pub fn contains(&self, id: ExecutionId) -> bool {
        self.recent.map.contains_key(&id) || self.ahead.map.contains_key(&id)
    }

    pub fn take(&mut self, id: ExecutionId) -> Option<Payload> {
        self.ahead.take(id).or_else(|| self.recent.take(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::Route;

    #[test]
    fn the_cache_stays_within_its_bytes_and_gives_out_once() {
        let mut cache = PayloadCache::new(64 << 10);
        let id = |n| ExecutionId::from_parts(0, Route(0), n);
        for n in 0..1_000 {
            cache.submitted(id(n), Payload::json(vec![b'x'; 1_000]));
            cache.read_ahead(id(n + 10_000), Payload::json(vec![b'x'; 1_000]));
        }
        assert!(cache.recent.bytes + cache.ahead.bytes <= 64 << 10);
        assert!(cache.take(id(999)).is_some());
        assert!(cache.take(id(999)).is_none());
        assert!(!cache.contains(id(0)));
        cache.submitted(id(1), Payload::json(vec![b'x'; 1 << 20]));
        assert!(!cache.contains(id(1)));
    }
}
