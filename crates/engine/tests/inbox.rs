//! Posted rows: taken once, by any number of servers, whatever the store does.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::change::{Changes, ExecutionChange};
use ff_core::commands::{DropLetter, RepostLetter, SetLane};
use ff_core::event::Fact;
use ff_core::inbox::Posted;
use ff_core::lane::LaneMode;
use ff_core::{ExecutionId, LaneName, Payload, Route};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, Start};
use ff_store::MemoryStore;

const PARTITIONS: u16 = 3;

fn id(number: u64) -> ExecutionId {
    ExecutionId::from_parts(1_700_000_000_000, Route(number as u16), number)
}

fn row(number: u64) -> Posted {
    Posted {
        number,
        id: Some(id(number)),
        posted_at: 1_700_000_000_000,
        kind: "work".to_owned(),
        input: Payload::json("{}"),
        namespace: None,
        lane: None,
        key: None,
        options: None,
    }
}

async fn engines(store: &Arc<MemoryStore>, count: usize) -> Vec<Engine> {
    let mut engines = Vec::new();
    for _ in 0..count {
        engines.push(Engine::start(store.clone(), EngineConfig::default()).await.unwrap());
    }
    engines
}

/// Lets the engines look until nothing is posted any more.
async fn until_taken(store: &MemoryStore, engines: &[Engine]) {
    while store.inspect(|state| state.partitions().any(|(_, it)| it.inbox().next().is_some())) {
        for engine in engines {
            engine.nudge().await;
        }
    }
}

/// How often each execution was created.
fn created(store: &MemoryStore) -> BTreeMap<ExecutionId, usize> {
    let mut created = BTreeMap::new();
    store.inspect(|state| {
        for event in state.partitions().flat_map(|(_, it)| it.events()) {
            if let (Fact::Created { .. }, Some(id)) = (&event.fact, event.execution) {
                *created.entry(id).or_default() += 1;
            }
        }
    });
    created
}

/// Why rows were given up.
fn dead(store: &MemoryStore) -> BTreeMap<u64, String> {
    store.inspect(|state| {
        let letters = state.partitions().flat_map(|(_, it)| it.dead_letters());
        letters.map(|letter| (letter.posted.number, letter.reason.clone())).collect()
    })
}

#[tokio::test]
async fn a_posted_row_becomes_an_execution_and_a_wrong_one_a_dead_letter() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 1).await;
    store.post(row(1));
    store.post(Posted { options: Some(r#"{"priority":1000}"#.to_owned()), ..row(2) });
    until_taken(&store, &engines).await;
    assert_eq!(created(&store), BTreeMap::from([(id(1), 1)]));
    let reason = "invalid: priority is 1000; allowed are -100 to 100";
    assert_eq!(dead(&store), BTreeMap::from([(2, reason.to_owned())]));
}

#[tokio::test]
async fn rows_are_taken_without_anybody_asking() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 1).await;
    let mut events = engines[0].subscribe(Default::default(), Start::Now).await.unwrap();
    store.post(row(1));
    loop {
        if let Item::Event { event, .. } = events.next().await
            && event.execution == Some(id(1))
        {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_race_for_the_same_rows_take_each_once() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 3).await;
    for number in 1..=3_000 {
        store.post(row(number));
        if number % 100 == 0 {
            engines[number as usize % 3].nudge().await;
        }
    }
    until_taken(&store, &engines).await;
    let once = (1..=3_000).map(|number| (id(number), 1)).collect();
    assert_eq!(created(&store), once);
    assert_eq!(dead(&store), BTreeMap::new());
}

#[tokio::test]
async fn lost_answers_and_lost_commits_take_no_row_twice_and_lose_none() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 2).await;
    let faults = store.faults();
    for round in 0..20 {
        (1..=10).for_each(|number| store.post(row(round * 10 + number)));
        match round % 4 {
            0 => faults.lose_answers(2),
            1 => faults.lose_commits(2),
            2 => faults.force_conflicts(2),
            _ => faults.fail_loads(2),
        }
        until_taken(&store, &engines).await;
    }
    assert_eq!(created(&store), (1..=200).map(|number| (id(number), 1)).collect());
}

#[tokio::test]
async fn a_row_that_the_store_refuses_is_given_up_and_does_not_stop_the_others() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 1).await;
    let refused = |changes: &Changes| {
        let is_guilty = |it: &ExecutionChange| matches!(it, ExecutionChange::Insert(it) if it.id == id(4));
        changes.executions.iter().any(is_guilty)
    };
    store.faults().refuse_if(refused);
    (1..=9).for_each(|number| store.post(row(number)));
    until_taken(&store, &engines).await;
    assert_eq!(created(&store).len(), 8);
    let dead = dead(&store);
    assert_eq!(dead.keys().copied().collect::<Vec<_>>(), [4]);
    assert!(dead[&4].contains("the store refused it"), "{dead:?}");
}

#[tokio::test]
async fn a_server_that_stops_leaves_rows_to_others() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let mut engines = engines(&store, 2).await;
    let first = engines.remove(0);
    store.faults().stall_commits();
    (1..=50).for_each(|number| store.post(row(number)));
    first.nudge().await;
    store.faults().until_waiting(1).await;
    let stopping = first.shutdown(std::time::Duration::ZERO);
    store.faults().release();
    stopping.await;
    until_taken(&store, &engines).await;
    assert_eq!(created(&store), (1..=50).map(|number| (id(number), 1)).collect());
}

#[tokio::test]
async fn a_letter_is_dropped_once_whoever_asks_and_whatever_is_lost() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 2).await;
    (1..=20).for_each(|number| store.post(Posted { kind: String::new(), ..row(number) }));
    until_taken(&store, &engines).await;
    let faults = store.faults();
    for number in 1..=20 {
        match number % 4 {
            0 => faults.lose_answers(1),
            1 => faults.lose_commits(1),
            2 => faults.force_conflicts(1),
            _ => faults.fail_loads(1),
        }
        let partition = id(number).route().partition(PARTITIONS);
        let drop = |actor: &str| DropLetter { partition, number, actor: actor.into(), cause: "".into() };
        let (one, other) = tokio::join!(engines[0].execute(drop("one")), engines[1].execute(drop("other")));
        let codes = [one, other].map(|it| it.err().map(|it| it.code()));
        assert!(
            [[None, Some("not_found")], [Some("not_found"), None]].contains(&codes),
            "{number}: {codes:?}"
        );
    }
    assert_eq!(dead(&store), BTreeMap::new());
    let dropped = |fact: &Fact| matches!(fact, Fact::LetterDropped { .. });
    let events = |state: &ff_store::MemoryState| {
        state.partitions().flat_map(|(_, it)| it.events()).filter(|it| dropped(&it.fact)).count()
    };
    assert_eq!(store.inspect(events), 20);
}

#[tokio::test]
async fn a_letter_that_is_reposted_after_its_lane_was_resumed_becomes_an_execution() {
    let store = Arc::new(MemoryStore::new(PARTITIONS));
    let engines = engines(&store, 2).await;
    let mode = |mode| SetLane {
        lane: LaneName::default(),
        mode: Some(mode),
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor: "ada".into(),
        cause: "".into(),
    };
    engines[0].execute(mode(LaneMode::Draining)).await.unwrap();
    store.post(row(7));
    until_taken(&store, &engines).await;
    assert!(dead(&store)[&7].starts_with("lane_draining"), "{:?}", dead(&store));
    engines[0].execute(mode(LaneMode::Open)).await.unwrap();
    let partition = id(7).route().partition(PARTITIONS);
    let repost = RepostLetter { partition, number: 7, actor: "ada".into(), cause: "".into() };
    engines[1].execute(repost).await.unwrap();
    until_taken(&store, &engines).await;
    assert_eq!((dead(&store), created(&store)), (BTreeMap::new(), BTreeMap::from([(id(7), 1)])));
}
