//! Polls whose callers go away, and what was claimed for them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use ff_core::class::Capabilities;
use ff_core::commands::{Create, Poll, RegisterWorker};
use ff_core::{InstanceId, Kind, LaneName, Payload, WorkerName};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, EventFilter, Start, Subscription};
use ff_store::MemoryStore;

const WAIT: Duration = Duration::from_secs(60);

async fn engine() -> Engine {
    Engine::start(Arc::new(MemoryStore::new(1)), EngineConfig::default()).await.unwrap()
}

async fn worker(engine: &Engine) -> Arc<Poll> {
    let instance: InstanceId = engine.new_instance_id(1);
    let name = WorkerName::parse("w").unwrap();
    let lanes = vec![LaneName::default()];
    let capabilities = Capabilities::default();
    let register = RegisterWorker {
        instance,
        name: name.clone(),
        lanes: lanes.clone(),
        capabilities: capabilities.clone(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 30_000,
    };
    engine.execute(register).await.unwrap();
    Arc::new(Poll { worker: name, instance, lanes, kinds: vec![], namespaces: vec![], capabilities })
}

fn create(engine: &Engine) -> Create {
    let id = engine.new_execution_id(1, "default", None);
    Create::new(id, Kind::parse("k").unwrap(), Payload::json("1"))
}

/// Reads events up to the one with this word.
async fn until(events: &mut Subscription, word: &str) {
    loop {
        if let Item::Event { event, .. } = events.next().await
            && event.fact.word() == word
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_claim_that_was_answered_to_a_caller_that_has_gone_is_given_back() {
    let engine = engine().await;
    let poll = worker(&engine).await;
    let mut events = engine.subscribe(EventFilter::default(), Start::Now).await.unwrap();
    let create = create(&engine);
    let id = create.id;
    {
        let polling = engine.poll(poll.clone(), 10, WAIT);
        tokio::pin!(polling);
        tokio::select! {
            biased;
            _ = &mut polling => panic!("there is nothing to claim yet"),
            _ = std::future::ready(()) => {}
        }
        engine.execute(create).await.unwrap();
        until(&mut events, "started").await;
        // The answer is there or on its way; nobody takes it.
    }
    until(&mut events, "requeued").await;
    let again = engine.poll(poll, 10, WAIT).await.unwrap();
    assert_eq!(again[0].execution.id, id);
    assert_eq!(again[0].execution.live.series.spent, 0);
    assert_eq!(again[0].execution.live.series.losses, 0);
}

#[tokio::test]
async fn a_poll_that_was_dropped_claims_nothing() {
    let engine = engine().await;
    let poll = worker(&engine).await;
    {
        let polling = engine.poll(poll.clone(), 10, WAIT);
        tokio::pin!(polling);
        tokio::select! {
            biased;
            _ = &mut polling => panic!("there is nothing to claim yet"),
            _ = std::future::ready(()) => {}
        }
    }
    engine.execute(create(&engine)).await.unwrap();
    let tasks = engine.poll(poll, 10, WAIT).await.unwrap();
    assert_eq!(tasks[0].execution.attempt_number(), 1);
}
