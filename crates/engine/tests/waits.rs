//! Waiting for the end of executions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Cancel, Create, Remove, Replay};
use ff_core::{Command, ExecutionId, Kind, Payload};
use ff_engine::{Engine, EngineConfig, Failure};
use ff_store::{MemoryStore, Store};

async fn engine(store: Arc<dyn Store>) -> Engine {
    Engine::start(store, EngineConfig::default()).await.unwrap()
}

fn create(engine: &Engine) -> Create {
    let id = engine.new_execution_id(1, "default", None);
    Create::new(id, Kind::parse("k").unwrap(), Payload::json("1"))
}

fn cancel(execution: ExecutionId) -> Command {
    Cancel { execution, actor: "t".into(), cause: "".into(), grace_ms: None }.into()
}

fn replay(execution: ExecutionId) -> Command {
    Replay { execution, actor: "t".into(), cause: "".into(), ended_by: None }.into()
}

#[tokio::test]
async fn after_a_replay_the_new_end_is_waited_for() {
    let engine = engine(Arc::new(MemoryStore::new(1))).await;
    let create = create(&engine);
    let id = create.id;
    engine.execute(create).await.unwrap();
    engine.execute(cancel(id)).await.unwrap();
    assert_eq!(engine.wait(id).await.unwrap().execution.live.series.number, 1);
    engine.execute(replay(id)).await.unwrap();
    let waiting = engine.wait(id);
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        ended = &mut waiting => panic!("it has not ended: {ended:?}"),
        () = engine.nudge() => {}
    }
    engine.execute(cancel(id)).await.unwrap();
    assert_eq!(waiting.await.unwrap().execution.live.series.number, 2);
}

#[tokio::test]
async fn what_was_removed_is_not_remembered() {
    let engine = engine(Arc::new(MemoryStore::new(1))).await;
    let create = create(&engine);
    let id = create.id;
    engine.execute(create).await.unwrap();
    engine.execute(cancel(id)).await.unwrap();
    let remove = Remove { execution: id, actor: "t".into(), cause: "".into() };
    engine.execute(remove).await.unwrap();
    assert_eq!(engine.wait(id).await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn an_end_in_another_process_is_noticed() {
    let store = MemoryStore::new(2);
    let here = engine(Arc::new(store.another())).await;
    let there = engine(Arc::new(store.another())).await;
    let creates = [create(&here), create(&here)];
    for create in creates {
        let id = create.id;
        here.execute(create).await.unwrap();
        let waiting = here.wait(id);
        let ending = async { there.execute(cancel(id)).await.unwrap() };
        let (ended, _) = tokio::join!(waiting, ending);
        assert!(ended.unwrap().execution.end().is_some());
    }
}

#[tokio::test]
async fn after_a_shutdown_everything_says_so() {
    let engine = engine(Arc::new(MemoryStore::new(1))).await;
    let create = create(&engine);
    let id = create.id;
    engine.execute(create.clone()).await.unwrap();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(id).await }
    });
    engine.shutdown(Duration::from_secs(5)).await;
    engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(waiting.await.unwrap(), Err(Failure::ShuttingDown));
    assert_eq!(engine.execute(cancel(id)).await, Err(Failure::ShuttingDown));
    assert_eq!(engine.execute_all(vec![cancel(id)]).await, [Err(Failure::ShuttingDown)]);
}
