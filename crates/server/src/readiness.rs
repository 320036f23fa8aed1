//! Whether the store answers, asked a few times a second at most: everybody may ask, as often as they like.

use ff_core::Ms;
use ff_engine::Engine;
use ff_store::Clock;
use tokio::sync::Mutex;

/// How long an answer of the store is good for.
const GOOD_FOR_MS: Ms = 250;

/// What the store has last answered, and when.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<Option<(Ms, Result<(), String>)>>);

impl Readiness {
    /// Whether the store answers, or why it does not. Whoever comes while it is asked waits for that answer.
    pub async fn check(&self, engine: &Engine, clock: &dyn Clock) -> Result<(), String> {
        let mut last = self.0.lock().await;
        let now = clock.now();
        if let Some((at, answer)) = &*last
            && (0..GOOD_FOR_MS).contains(&(now - at))
        {
            return answer.clone();
        }
        let answer = engine.store().status().await.map(drop).map_err(|error| error.to_string());
        *last = Some((clock.now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::sync::Arc;

    use ff_engine::EngineConfig;
    use ff_store::{ManualClock, MemoryStore};

    use super::*;

    #[tokio::test]
    async fn the_store_is_not_asked_again_for_a_moment() {
        let store = MemoryStore::new(1);
        let engine = Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap();
        let (ready, clock) = (Readiness::default(), ManualClock::at(1_000));
        let is_ready = async || ready.check(&engine, &clock).await.is_ok();
        assert!(is_ready().await);
        store.faults().start_outage();
        clock.advance(GOOD_FOR_MS - 1);
        assert!(is_ready().await);
        clock.advance(1);
        assert!(!is_ready().await);
        store.faults().end_outage();
        assert!(!is_ready().await, "that it does not answer is good for as long");
        clock.set(0);
        assert!(is_ready().await, "a clock that was put back does not keep it");
    }
}
