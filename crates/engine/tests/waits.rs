//! Waiting for the end of executions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Cancel, Complete, Create, Poll, RegisterWorker, Remove, Replay};
use ff_core::{Command, ExecutionId, Kind, LaneName, Payload, WorkerName};
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

/// Runs a new execution to its end; who waited for it meanwhile is told of the result.
async fn ended_with(engine: &Engine, result: &Payload) -> ExecutionId {
    let (instance, name) = (engine.new_instance_id(1), WorkerName::parse("w").unwrap());
    let lanes = vec![LaneName::default()];
    let registered = RegisterWorker {
        instance,
        name: name.clone(),
        lanes: lanes.clone(),
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 60_000,
    };
    engine.execute(registered).await.unwrap();
    let create = create(engine);
    let id = create.id;
    engine.execute(create).await.unwrap();
    let (kinds, namespaces, capabilities) = (vec![], vec![], Default::default());
    let poll = Poll { worker: name, instance, lanes, kinds, namespaces, capabilities };
    let tasks = engine.poll(Arc::new(poll), 1, Duration::from_secs(10)).await.unwrap();
    let complete = Complete { fence: tasks[0].execution.fence(), result: Some(result.clone()) };
    let (ended, completed) = tokio::join!(engine.wait(id), engine.execute(complete));
    completed.unwrap();
    assert_eq!(ended.unwrap().result.as_ref(), Some(result));
    id
}

#[tokio::test]
async fn of_what_has_ended_only_small_results_stay_in_memory() {
    let store = Arc::new(MemoryStore::new(1));
    let engine = engine(store.clone()).await;
    let (small, large) = (Payload::json("42"), Payload::json(vec![b'1'; 1 << 20]));
    let (of_small, of_large) = (ended_with(&engine, &small).await, ended_with(&engine, &large).await);
    store.faults().start_outage();
    assert_eq!(engine.wait(of_small).await.unwrap().result, Some(small));
    assert_eq!(engine.wait(of_large).await.unwrap_err().code(), "unavailable");
    store.faults().end_outage();
    assert_eq!(engine.wait(of_large).await.unwrap().result, Some(large));
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
