//! Several servers on one store: who takes what, and what happens when one falls silent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::commands::{Cancel, Create, When};
use ff_core::event::Fact;
use ff_core::{ExecutionId, Kind, Payload, Route};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, Start};
use ff_store::{MemoryStore, Store};

const PARTITIONS: u16 = 8;

async fn engine(store: &Arc<MemoryStore>) -> Engine {
    Engine::start(store.clone(), EngineConfig::default()).await.unwrap()
}

fn create(id: ExecutionId) -> Create {
    Create::new(id, Kind::parse("k").unwrap(), Payload::json("1"))
}

/// A server that says it is alive and does nothing comes first in some partitions. What is due there is fired
/// by the next one, a moment later.
#[tokio::test]
async fn what_a_silent_server_leaves_undone_is_done_by_the_next() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    for silent in ["one", "two", "three"] {
        store.beat(silent.to_owned()).await.unwrap();
    }
    let engine = engine(&store).await;
    let mut events = engine.subscribe(Default::default(), Start::Now).await.unwrap();
    let mut asleep = BTreeSet::new();
    for route in 0..PARTITIONS {
        let id = ExecutionId::from_parts(1, Route(route), 1);
        engine.execute(Create { start: Some(When::In(1)), ..create(id) }).await.unwrap();
        asleep.insert(id);
    }
    while !asleep.is_empty() {
        if let Item::Event { event, .. } = events.next().await
            && matches!(event.fact, Fact::Woken)
        {
            asleep.remove(&event.execution.unwrap());
        }
    }
}

#[tokio::test]
async fn servers_prefer_different_partitions_for_new_work() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    store.beat("another".to_owned()).await.unwrap();
    let engine = engine(&store).await;
    // So many that every partition gets its while.
    let routes = |engine: &Engine| -> BTreeSet<u16> {
        (0..10_000).map(|_| engine.new_execution_id(1, "default", None).route().0 % PARTITIONS).collect()
    };
    let alive = [engine.server().to_owned(), "another".to_owned()];
    let ranks = ff_engine::machine::affinity::ranks(engine.server(), &alive, PARTITIONS);
    let all: BTreeSet<u16> = (0..PARTITIONS).collect();
    let first = (0..PARTITIONS).filter(|it| ranks[usize::from(*it)] == 0).collect::<BTreeSet<u16>>();
    assert_eq!(routes(&engine), if first.is_empty() { all } else { first });
}

/// The server that waits has nothing else to do with the partition, and hears of the end all the same.
#[tokio::test]
async fn an_end_at_another_server_is_heard_of_by_whoever_waits() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let (here, there) = (engine(&store).await, engine(&store).await);
    for route in 0..PARTITIONS {
        let id = ExecutionId::from_parts(1, Route(route), 1);
        // Submitted here in one half of the partitions, so that it is known to be alive.
        let submits = if route % 2 == 0 { &here } else { &there };
        submits.execute(create(id)).await.unwrap();
        let waiting = here.wait(id);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            ended = &mut waiting => panic!("it has not ended: {ended:?}"),
            () = here.nudge() => {}
        }
        let cancel = Cancel { execution: id, actor: "t".into(), cause: "".into(), grace_ms: None };
        there.execute(cancel).await.unwrap();
        assert!(waiting.await.unwrap().execution.end().is_some());
    }
}
