//! The engine on the memory store: the main path, and what happens when the store misbehaves.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Cancel, Complete, Create, Poll, RegisterWorker, SetLane};
use ff_core::lane::LaneMode;
use ff_core::{
    Command, ExecutionId, InstanceId, Kind, LaneName, Payload, PublicState, Rejection, Reply, WorkerName,
};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, EventFilter, Failure, Start, Task};
use ff_store::MemoryStore;

async fn engine_on(store: &Arc<MemoryStore>) -> Engine {
    Engine::start(store.clone(), EngineConfig::default()).await.unwrap()
}

async fn fresh(partitions: u16) -> (Arc<MemoryStore>, Engine) {
    let store = Arc::new(MemoryStore::new(partitions));
    let engine = engine_on(&store).await;
    (store, engine)
}

fn create(engine: &Engine) -> Create {
    let id = engine.new_execution_id(1_700_000_000_000, "default", None);
    Create { fresh: true, ..Create::new(id, Kind::parse("work").unwrap(), Payload::json("{}")) }
}

async fn submit(engine: &Engine) -> ExecutionId {
    match engine.execute(create(engine)).await.unwrap() {
        Reply::Created { execution, existing: false } => execution,
        other => panic!("{other:?}"),
    }
}

async fn worker(engine: &Engine) -> Arc<Poll> {
    let instance: InstanceId = engine.new_instance_id(1_700_000_000_000);
    let name = WorkerName::parse("w").unwrap();
    let lanes = vec![LaneName::default()];
    let command = RegisterWorker {
        instance,
        name: name.clone(),
        lanes: lanes.clone(),
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 60_000,
    };
    engine.execute(command).await.unwrap();
    let (kinds, namespaces, capabilities) = (vec![], vec![], Default::default());
    Arc::new(Poll { worker: name, instance, lanes, kinds, namespaces, capabilities })
}

async fn claim(engine: &Engine, poll: &Arc<Poll>, max: usize) -> Vec<Task> {
    engine.poll(poll.clone(), max, Duration::from_secs(10)).await.unwrap()
}

async fn complete(engine: &Engine, task: &Task) -> Result<Reply, Failure> {
    let result = Some(Payload::json("42"));
    engine.execute(Complete { fence: task.execution.fence(), result }).await
}

#[tokio::test]
async fn work_is_created_claimed_completed_and_its_result_waited_for() {
    for partitions in [1, 3, 8] {
        let (_, engine) = fresh(partitions).await;
        let poll = worker(&engine).await;
        for _ in 0..20 {
            let id = submit(&engine).await;
            let tasks = claim(&engine, &poll, 1).await;
            assert_eq!(tasks.len(), 1);
            assert_eq!(tasks[0].execution.id, id);
            assert_eq!(&tasks[0].input.bytes[..], b"{}");
            let waiting = engine.wait(id);
            complete(&engine, &tasks[0]).await.unwrap();
            let ended = waiting.await.unwrap();
            assert_eq!(ended.execution.public_state(), PublicState::Completed);
            assert_eq!(&ended.result.unwrap().bytes[..], b"42");
        }
    }
}

#[tokio::test]
async fn a_waiting_poll_gets_what_is_created_later_in_the_same_commit() {
    let (store, engine) = fresh(1).await;
    let poll = worker(&engine).await;
    let (polling, creating) = (engine.clone(), engine.clone());
    let claimed = tokio::spawn(async move { claim(&polling, &poll, 5).await });
    while engine.stats().await.unwrap().waiting_polls == 0 {
        tokio::task::yield_now().await;
    }
    let id = submit(&creating).await;
    assert_eq!(claimed.await.unwrap()[0].execution.id, id);
    let versions = store.inspect(|state| state.partitions().map(|(_, it)| it.version().number).sum::<u64>());
    assert_eq!(versions, 2, "one commit registers the worker, one creates and claims");
}

#[tokio::test]
async fn a_lost_answer_is_resolved_whether_the_commit_happened_or_not() {
    let (store, engine) = fresh(1).await;
    submit(&engine).await;
    store.faults().lose_answers(1);
    let happened = submit(&engine).await;
    store.faults().lose_commits(1);
    let again = submit(&engine).await;
    for id in [happened, again] {
        assert!(engine.get(id).await.unwrap().is_some());
    }
    assert_eq!(engine.stats().await.unwrap().unknown_outcomes, 2);
    assert_eq!(engine.counts().await.unwrap()[0].1, 3);
}

#[tokio::test]
async fn an_outage_is_waited_out_and_nothing_is_done_twice() {
    let (store, engine) = fresh(3).await;
    submit(&engine).await;
    store.faults().start_outage();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { submit(&engine).await }
    });
    while engine.stats().await.unwrap().queued + engine.stats().await.unwrap().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    store.faults().end_outage();
    waiting.await.unwrap();
    let total: u64 = engine.counts().await.unwrap().iter().map(|(_, n)| n).sum();
    assert_eq!(total, 2);
}

#[tokio::test]
async fn one_command_that_the_store_refuses_does_not_fail_the_others_of_its_batch() {
    let (store, engine) = fresh(1).await;
    let mut commands: Vec<Command> = (0..50).map(|_| create(&engine).into()).collect();
    let guilty = create(&engine);
    let guilty_id = guilty.id;
    commands.insert(17, guilty.into());
    store
        .faults()
        .refuse_if(move |changes| changes.keys().contains(&ff_core::key::Key::Execution(guilty_id)));
    let results = engine.execute_all(commands).await;
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result.is_ok(), n != 17, "{n}: {result:?}");
    }
    assert_eq!(results[17].as_ref().unwrap_err().code(), "internal");
}

#[tokio::test]
async fn two_engines_share_one_store() {
    let store = Arc::new(MemoryStore::new(3));
    let (one, two) = (engine_on(&store).await, engine_on(&store).await);
    let poll = worker(&two).await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(submit(&one).await);
    }
    let mut done = 0;
    while done < ids.len() {
        for task in claim(&two, &poll, 4).await {
            complete(&two, &task).await.unwrap();
            done += 1;
        }
    }
    for id in ids {
        assert_eq!(one.wait(id).await.unwrap().execution.public_state(), PublicState::Completed);
    }
}

#[tokio::test]
async fn after_a_pause_returns_nothing_of_the_lane_starts_in_any_partition() {
    let (_, engine) = fresh(8).await;
    let poll = worker(&engine).await;
    let lane = LaneName::default();
    let set = |mode| SetLane {
        lane: lane.clone(),
        mode: Some(mode),
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor: "ann".into(),
        cause: "maintenance".into(),
    };
    engine.execute(set(LaneMode::Paused)).await.unwrap();
    for _ in 0..20 {
        submit(&engine).await;
    }
    let none = engine.poll(poll.clone(), 5, Duration::ZERO).await.unwrap();
    assert_eq!(none, []);
    engine.execute(set(LaneMode::Open)).await.unwrap();
    let mut got = 0;
    while got < 20 {
        got += claim(&engine, &poll, 20).await.len();
    }
}

#[tokio::test]
async fn a_subscription_resumes_exactly_after_its_cursor() {
    let (_, engine) = fresh(3).await;
    let poll = worker(&engine).await;
    let mut all = engine.subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
    for _ in 0..7 {
        submit(&engine).await;
        for task in claim(&engine, &poll, 3).await {
            complete(&engine, &task).await.unwrap();
        }
    }
    let mut seen = Vec::new();
    let mut cursors = Vec::new();
    for _ in 0..7 * 5 + 1 {
        let Item::Event { event, partition, cursor } = all.next().await else { panic!("interrupted") };
        seen.push((partition, event.number));
        cursors.push(cursor);
    }
    for (n, cursor) in cursors.iter().enumerate() {
        let cursor = cursor.to_string().parse().unwrap();
        let mut rest = engine.subscribe(EventFilter::default(), Start::After(cursor)).await.unwrap();
        let mut got = seen[..=n].to_vec();
        for _ in n + 1..seen.len() {
            let Item::Event { event, partition, .. } = rest.next().await else { panic!("interrupted") };
            got.push((partition, event.number));
        }
        got.sort();
        let mut want = seen.clone();
        want.sort();
        assert_eq!(got, want);
    }
}

#[tokio::test]
async fn shutting_down_refuses_what_comes_later_and_may_be_repeated() {
    let (_, engine) = fresh(1).await;
    submit(&engine).await;
    let report = engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!((report.abandoned, report.unanswered), (0, 0));
    engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(engine.execute(create(&engine)).await, Err(Failure::ShuttingDown));
}

#[tokio::test]
async fn a_full_queue_says_busy() {
    let store = Arc::new(MemoryStore::new(1));
    let mut config = EngineConfig::default();
    config.machine.queue_max = 10;
    let engine = Engine::start(store.clone(), config).await.unwrap();
    submit(&engine).await;
    store.faults().stall();
    let commands = (0..40).map(|_| create(&engine).into()).collect();
    let sending = tokio::spawn({
        let engine = engine.clone();
        async move { engine.execute_all(commands).await }
    });
    while engine.stats().await.unwrap().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    store.faults().release();
    let results = sending.await.unwrap();
    assert!(results.iter().any(|it| matches!(it, Err(Failure::Busy { max: 10, .. }))));
    assert!(results.iter().any(Result::is_ok));
}

#[tokio::test]
async fn rejections_name_what_is_wrong_and_change_nothing() {
    let (store, engine) = fresh(1).await;
    let id = submit(&engine).await;
    let cancel = |execution| Cancel { execution, actor: "a".into(), cause: "c".into(), grace_ms: None };
    engine.execute(cancel(id)).await.unwrap();
    let before = store.inspect(|state| state.partition(ff_core::PartitionId(0)).unwrap().version());
    let missing = engine.new_execution_id(0, "default", None);
    let failure = engine.execute(cancel(missing)).await.unwrap_err();
    assert!(matches!(failure, Failure::Rejected(Rejection::NotFound { .. })), "{failure:?}");
    let mut big = create(&engine);
    big.input = Payload::json(vec![b' '; 5 << 20]);
    let failure = engine.execute(big).await.unwrap_err();
    assert_eq!(failure.to_string(), "input has 5242880 bytes; allowed are at most 4194304");
    let after = store.inspect(|state| state.partition(ff_core::PartitionId(0)).unwrap().version());
    assert_eq!(before, after);
}

#[tokio::test]
async fn whoever_begins_to_wait_does_not_sit_out_the_pause_of_an_idle_engine() {
    let store = Arc::new(MemoryStore::new(1));
    let config = EngineConfig { status_idle_ms: 3_600_000, status_busy_ms: 10, ..EngineConfig::default() };
    let idle = Engine::start(store.clone(), config).await.unwrap();
    // Answered after the engine has looked around for the first time and has found nobody waiting.
    idle.stats().await.unwrap();
    let other = engine_on(&store).await;
    let id = submit(&other).await;
    let waiting = tokio::spawn(async move { idle.wait(id).await });
    let poll = worker(&other).await;
    let tasks = claim(&other, &poll, 1).await;
    complete(&other, &tasks[0]).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(ended.unwrap().unwrap().unwrap().execution.public_state(), PublicState::Completed);
}

#[tokio::test]
async fn the_doctor_finds_a_store_in_order_and_notices_when_it_is_not() {
    let (store, engine) = fresh(3).await;
    let poll = worker(&engine).await;
    for _ in 0..30 {
        submit(&engine).await;
    }
    for task in claim(&engine, &poll, 4).await {
        complete(&engine, &task).await.unwrap();
    }
    engine.shutdown(Duration::from_secs(5)).await;
    let found = ff_engine::doctor::examine(&*store).await.unwrap();
    assert_eq!((found.executions, found.problems), (30, vec![]));

    let partition = ff_core::PartitionId(0);
    let version = store.inspect(|state| state.partition(partition).unwrap().version());
    let entry = store.inspect(|state| state.partition(partition).unwrap().ready().next().unwrap());
    let changes = ff_core::change::Changes { ready_removed: vec![entry], ..Default::default() };
    let id = ff_core::CommitId::from_parts(1, ff_core::Route(0), 1);
    let by = ff_core::ServerId::from_parts(1, ff_core::Route(0), 1);
    let commit = ff_store::Commit { partition, expected: version, id, by, changes };
    store.edit(|state| state.commit(commit, 1));
    let found = ff_engine::doctor::examine(&*store).await.unwrap();
    assert!(found.problems[0].contains("partition 0"), "{found:?}");
}
