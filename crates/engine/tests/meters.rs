//! What an engine measures, by a clock that stands still until it is moved.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Create, Heartbeat, Poll, RegisterWorker, SetLane, When};
use ff_core::lane::LaneMode;
use ff_core::{Kind, LaneName, Ms, Payload, WorkerName};
use ff_engine::machine::AgendaStats;
use ff_engine::{Engine, EngineConfig};
use ff_store::{ManualClock, MemoryStore};

const START: Ms = 1_800_000_000_000;
const HOUR: Ms = 3_600_000;

async fn engine() -> (Arc<ManualClock>, Engine) {
    let clock = Arc::new(ManualClock::at(START));
    let store = MemoryStore::with_clock(1, clock.clone());
    let config = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    (clock, Engine::start(Arc::new(store), config).await.unwrap())
}

async fn submit(engine: &Engine, start: Option<When>, priority: i8) {
    let id = engine.new_execution_id(START, "default", None);
    let create = Create::new(id, Kind::parse("work").unwrap(), Payload::json("1"));
    engine.execute(Create { start, priority, ..create }).await.unwrap();
}

/// Replies leave before what a commit means for others is looked at; whoever asks the engine afterwards comes after both.
async fn settled(engine: &Engine) {
    engine.stats().await.unwrap();
}

/// A worker of its own claims everything that is ready.
async fn claim(engine: &Engine, count: usize) {
    let instance = engine.new_instance_id(START);
    let (name, lanes) = (WorkerName::parse("w").unwrap(), vec![LaneName::default()]);
    let register = RegisterWorker {
        instance,
        name: name.clone(),
        lanes: lanes.clone(),
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 60_000,
    };
    engine.execute(register).await.unwrap();
    let (kinds, namespaces, capabilities) = (vec![], vec![], Default::default());
    let poll = Arc::new(Poll { worker: name, instance, lanes, kinds, namespaces, capabilities });
    let mut claimed = 0;
    while claimed < count {
        claimed += engine.poll(poll.clone(), count, Duration::from_secs(30)).await.unwrap().len();
    }
    settled(engine).await;
}

#[tokio::test]
async fn the_time_to_start_begins_when_work_is_ready_for_a_worker() {
    let (clock, engine) = engine().await;
    let started = || {
        let read = engine.meters().time_to_start.read();
        (read.count(), (read.sum * 1_000.0).round() as Ms)
    };
    submit(&engine, None, 0).await;
    submit(&engine, None, 100).await;
    clock.advance(5_000);
    engine.nudge().await;
    claim(&engine, 2).await;
    assert_eq!(started(), (2, 10_000), "five seconds each, whatever the priority");

    submit(&engine, Some(When::In(HOUR)), 0).await;
    clock.advance(HOUR + 20);
    engine.nudge().await;
    claim(&engine, 1).await;
    let (count, ms) = started();
    assert_eq!(count, 3);
    assert!((10_000..=10_020).contains(&ms), "an hour that was asked for is no delay of ours: {ms}");
}

#[tokio::test]
async fn every_commit_counts_once_with_the_commands_it_carries() {
    let (_, engine) = engine().await;
    let before = engine.meters().batch_commands.read();
    let commands = (0..20).map(|_| {
        let id = engine.new_execution_id(START, "default", None);
        Create::new(id, Kind::parse("work").unwrap(), Payload::json("1")).into()
    });
    for reply in engine.execute_all(commands.collect()).await {
        reply.unwrap();
    }
    settled(&engine).await;
    let after = engine.meters().batch_commands.read();
    let commits = after.count() - before.count();
    assert_eq!(after.sum - before.sum, 20.0);
    assert!((1..=20).contains(&commits), "{commits}");
}

#[tokio::test]
async fn what_is_late_is_what_had_an_effect_and_not_a_timer_that_is_armed_again() {
    let (clock, engine) = engine().await;
    claim(&engine, 0).await;
    submit(&engine, Some(When::In(HOUR)), 0).await;
    // The worker was heard of meanwhile, so that its timer has nothing to do but to begin anew.
    clock.advance(50_000);
    let workers = engine.lanes_and_workers().await.unwrap().1;
    engine.execute(Heartbeat { instance: workers[0].instance }).await.unwrap();
    clock.advance(15_000);
    engine.nudge().await;
    let stats = loop {
        let stats = engine.stats().await.unwrap();
        if stats.stray > 0 {
            break stats;
        }
    };
    assert_eq!(stats.agenda["worker_timer"], AgendaStats::default());
    clock.advance(HOUR);
    engine.nudge().await;
    let stats = loop {
        let stats = engine.stats().await.unwrap();
        if stats.agenda.get("timer").is_some_and(|it| it.fired > 0) {
            break stats;
        }
    };
    assert_eq!(stats.agenda["timer"].late_ms, 65_000);
}

#[tokio::test]
async fn a_message_to_another_partition_counts_when_it_is_acknowledged() {
    let clock = Arc::new(ManualClock::at(START));
    let store = MemoryStore::with_clock(3, clock.clone());
    let config = EngineConfig { local_clock: Some(clock), ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(store), config).await.unwrap();
    let pause = SetLane {
        lane: LaneName::default(),
        mode: Some(LaneMode::Paused),
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor: "ada".into(),
        cause: "".into(),
    };
    engine.execute(pause).await.unwrap();
    while engine.stats().await.unwrap().agenda.get("deliver").is_none_or(|it| it.fired < 2) {}
}
