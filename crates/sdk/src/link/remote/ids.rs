//! New ids, made here so that a call whose answer was lost can be repeated.

use std::sync::atomic::{AtomicUsize, Ordering};

use ff_core::{ExecutionId, FlowId, InstanceId, Ms, Route};
use ff_engine::random::{Random, mix};

/// How many new executions in a row go to one partition, so that what is submitted together is committed together.
const ROUTE_RUN: usize = 256;

#[derive(Debug)]
pub(crate) struct Ids {
    random: Random,
    made: AtomicUsize,
    /// Where this client begins; others begin elsewhere.
    first_route: u16,
}

impl Ids {
    pub fn new(seed: u64) -> Ids {
        Ids { random: Random::new(mix(seed)), made: AtomicUsize::new(0), first_route: seed as u16 }
    }

    /// A number nobody else has drawn.
    pub fn random(&self) -> u64 {
        self.random.next()
    }

    fn free_route(&self) -> Route {
        let run = self.made.fetch_add(1, Ordering::Relaxed) / ROUTE_RUN;
        Route(self.first_route.wrapping_add(run as u16))
    }

    /// With an idempotency key the route is the key's.
    pub fn execution(&self, now: Ms, namespace: &str, key: Option<&str>) -> ExecutionId {
        let route = key.map_or_else(|| self.free_route(), |key| Route::of_key(namespace, key));
        ExecutionId::from_parts(now, route, self.random())
    }

    pub fn instance(&self, now: Ms) -> InstanceId {
        InstanceId::from_parts(now, self.free_route(), self.random())
    }

    pub fn flow(&self, now: Ms) -> FlowId {
        FlowId::from_parts(now, self.free_route(), self.random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_in_a_row_shares_its_route_and_a_key_has_its_own() {
        let ids = Ids::new(7);
        let made: Vec<ExecutionId> = (0..=ROUTE_RUN).map(|_| ids.execution(1, "default", None)).collect();
        assert!(made[..ROUTE_RUN].iter().all(|id| id.route() == made[0].route()));
        assert_ne!(made[ROUTE_RUN].route(), made[0].route());
        assert_eq!(ids.execution(1, "default", Some("k")).route(), Route::of_key("default", "k"));
    }
}
