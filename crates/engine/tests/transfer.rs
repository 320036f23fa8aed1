//! A store is copied into another one: everything is there, nobody can work on half of it, and the source stays as it is.
//! What becomes of work under way is the simulator's: it copies its store in the middle of everything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{AddEdges, AddNodes, Create, CreateFlow, NewEdge, NewNode, SetLane, SetWebhook};
use ff_core::event::Fact;
use ff_core::inbox::{DeadLetter, Posted};
use ff_core::lane::LaneMode;
use ff_core::registry::{HOME, Record, RecordKind};
use ff_core::suspension::token::Secret;
use ff_core::tags::Tags;
use ff_core::{ExecutionId, Kind, LaneName, Ms, Namespace, PartitionId, Payload, Route};
use ff_engine::subscription::Item;
use ff_engine::transfer::{Stage, TransferError, Transferred, transfer};
use ff_engine::{Engine, EngineConfig, EventFilter, Start};
use ff_store::memory::Partition;
use ff_store::{ManualClock, MemoryStore, Store, StoreError};

const START: Ms = 1_800_000_000_000;

fn store(partitions: u16) -> MemoryStore {
    MemoryStore::with_clock(partitions, Arc::new(ManualClock::at(START)))
}

async fn engine(store: &MemoryStore) -> Engine {
    Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap()
}

async fn stop(engine: Engine) {
    engine.shutdown(Duration::from_secs(5)).await;
}

async fn copy(from: &MemoryStore, to: &MemoryStore) -> Result<Transferred, TransferError> {
    transfer(from, to, "the first", 7, &mut |_| {}).await
}

fn id(route: u16, number: u64) -> ExecutionId {
    ExecutionId::from_parts(START, Route(route), number)
}

fn create(id: ExecutionId) -> Create {
    Create::new(id, "work".parse().unwrap(), Payload::json("1"))
}

/// Executions that wait, in the order in which they are given out.
fn waiting(store: &MemoryStore) -> Vec<ExecutionId> {
    let ready = |it: &Partition| it.ready().map(|entry| entry.execution).collect::<Vec<_>>();
    store.inspect(|state| state.partitions().flat_map(|(_, it)| ready(it)).collect())
}

#[tokio::test]
async fn places_in_queues_that_become_one_stay_apart_and_in_their_order() {
    let (from, to) = (store(3), store(1));
    let engine = engine(&from).await;
    // The same moment and, in each partition, the same numbers.
    for number in 0..5 {
        for route in 0..3 {
            engine.execute(create(id(route, number))).await.unwrap();
        }
    }
    stop(engine).await;
    assert_eq!(copy(&from, &to).await.unwrap().executions, 15);
    let order = waiting(&to);
    assert_eq!(order.len(), 15);
    for route in 0..3 {
        let own: Vec<_> = order.iter().copied().filter(|it| it.route() == Route(route)).collect();
        let given: Vec<_> = (0..5).map(|number| id(route, number)).collect();
        assert_eq!(own, given);
    }
    // What comes after the copy is behind what came with it.
    let engine = self::engine(&to).await;
    engine.execute(create(id(0, 99))).await.unwrap();
    assert_eq!(waiting(&to).last(), Some(&id(0, 99)));
    stop(engine).await;
}

#[tokio::test]
async fn a_list_of_any_length_comes_whole() {
    let (from, to) = (store(1), store(8));
    let engine = engine(&from).await;
    let flow = engine.new_flow_id(1);
    let kind = Kind::parse("k").unwrap();
    let new = || {
        let id = engine.new_member_id(1, flow);
        (id, NewNode { open: true, ..NewNode::new(Create::new(id, kind.clone(), Payload::json("1"))) })
    };
    let (first, node) = new();
    let (namespace, tags, actor) = (Namespace::default(), Tags::default(), "t".into());
    let (nodes, edges) = (vec![node], vec![]);
    let whole = CreateFlow {
        id: flow,
        fresh: true,
        namespace,
        kind: kind.clone(),
        tags,
        nodes,
        edges,
        sealed: false,
        actor,
    };
    engine.execute(whole).await.unwrap();
    for _ in 0..3 {
        let (ids, nodes): (Vec<_>, Vec<_>) = (0..800).map(|_| new()).unzip();
        let (expected_revision, actor): (_, Box<str>) = (None, "t".into());
        let add = AddNodes { flow, nodes, edges: vec![], expected_revision, actor: actor.clone() };
        engine.execute(add).await.unwrap();
        let edges = ids.into_iter().map(|id| NewEdge::new(first, id)).collect();
        engine.execute(AddEdges { flow, edges, expected_revision, actor }).await.unwrap();
    }
    stop(engine).await;
    let done = copy(&from, &to).await.unwrap();
    assert_eq!((done.executions, done.flows), (2_401, 1));
    let edges = to.inspect(|state| state.partitions().map(|(_, it)| it.edges().count()).sum::<usize>());
    assert_eq!(edges, 2_400);
}

#[tokio::test]
async fn a_store_in_use_one_that_is_not_empty_and_one_and_the_same_are_refused() {
    let (from, to) = (store(1), store(1));
    assert!(matches!(copy(&from, &to).await, Err(TransferError::Empty)));
    from.post(row(1, "work"));
    let busy = engine(&from).await;
    assert!(matches!(copy(&from, &to).await, Err(TransferError::Served(1))));
    stop(busy).await;
    assert!(matches!(copy(&from, &from.another()).await, Err(TransferError::Same)));
    let idle = engine(&to).await;
    assert!(matches!(copy(&from, &to).await, Err(TransferError::ServedTarget(1))));
    stop(idle).await;
    let other = engine(&to).await;
    other.execute(create(id(0, 1))).await.unwrap();
    stop(other).await;
    assert!(matches!(copy(&from, &to).await, Err(TransferError::NotEmpty)));
    let posted = store(1);
    posted.post(row(1, "work"));
    assert!(matches!(copy(&from, &posted).await, Err(TransferError::NotEmpty)));
    let versions = posted.inspect(|state| state.partitions().map(|(_, it)| it.version().number).sum::<u64>());
    assert_eq!(versions, 0);
}

#[tokio::test]
async fn whoever_works_on_either_store_meanwhile_spoils_the_copy_and_nobody_can_use_it() {
    for spoiled in ["source", "target"] {
        let (from, to) = (store(3), store(1));
        let engine = engine(&from).await;
        engine.execute(create(id(1, 1))).await.unwrap();
        stop(engine).await;
        let somebody = if spoiled == "source" { from.another() } else { to.another() };
        let mut tell = |progress: ff_engine::transfer::Progress| {
            if progress.stage == Stage::Executions {
                somebody.edit(|state| {
                    let expected = state.partition(PartitionId(0)).unwrap().version();
                    let commit = ff_store::Commit {
                        partition: PartitionId(0),
                        expected,
                        id: ff_core::CommitId::from_parts(START, Route(0), 5),
                        by: ff_core::ServerId::from_parts(START, Route(0), 5),
                        changes: ff_core::change::Changes::default(),
                    };
                    state.commit(commit, START);
                });
            }
        };
        let said = transfer(&from, &to, "the first", 7, &mut tell).await;
        match spoiled {
            "source" => assert!(matches!(said, Err(TransferError::Changed)), "{said:?}"),
            _ => assert!(matches!(said, Err(TransferError::Interfered)), "{said:?}"),
        }
        let started = Engine::start(Arc::new(to.another()), EngineConfig::default()).await;
        let Err(StoreError::Unusable(text)) = started else { panic!("an engine works on half of a store") };
        assert!(text.contains("unfinished copy of the first"), "{text}");
        let again = copy(&to, &store(1)).await;
        assert!(matches!(again, Err(TransferError::UnfinishedSource(_))), "{again:?}");
        assert!(matches!(copy(&from, &to).await, Err(TransferError::UnfinishedTarget(_))));
    }
    // A row that an application posts makes no version.
    let (from, to) = (store(1), store(3));
    from.post(row(1, "work"));
    let application = from.another();
    let mut tell = |progress: ff_engine::transfer::Progress| {
        if progress.stage == Stage::Checking {
            application.post(row(2, "work"));
        }
    };
    let said = transfer(&from, &to, "the first", 7, &mut tell).await;
    assert!(matches!(said, Err(TransferError::Changed)), "{said:?}");
}

#[tokio::test]
async fn time_stands_still_while_a_store_is_copied_so_that_leases_are_spared_as_after_an_outage() {
    let clock = Arc::new(ManualClock::at(START));
    let (from, to) = (MemoryStore::with_clock(2, clock.clone()), MemoryStore::with_clock(3, clock.clone()));
    let engine = engine(&from).await;
    engine.execute(create(id(1, 1))).await.unwrap();
    stop(engine).await;
    let times = |store: &MemoryStore| -> Vec<Ms> {
        store.inspect(|state| state.partitions().map(|(_, it)| it.header().now).collect())
    };
    // The engine lets time go on by what really passes between two answers of the store.
    let latest = times(&from).into_iter().max().unwrap();
    let later = latest + 3_600_000;
    clock.set(later);
    copy(&from, &to).await.unwrap();
    assert_eq!(times(&to), [latest; 3]);
    assert!(latest < later);
}

#[tokio::test]
async fn a_lane_that_is_paused_is_paused_in_every_partition_also_where_nobody_was_told_yet() {
    let (from, to) = (store(3), store(8));
    let engine = engine(&from).await;
    let lane = LaneName::parse("slow").unwrap();
    let mode = Some(LaneMode::Paused);
    let (actor, cause) = (Box::from("ada"), Box::from("tired"));
    let set = SetLane {
        lane: lane.clone(),
        mode,
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor,
        cause,
    };
    engine.execute(set).await.unwrap();
    stop(engine).await;
    // Its copies are lost, as if the messages were still on their way.
    let home = Route::of_name("slow").partition(3);
    from.edit(|state| {
        for partition in (0..3).map(PartitionId).filter(|it| *it != home) {
            let changes = ff_core::change::Changes {
                header: *state.partition(partition).unwrap().header(),
                lanes: vec![(lane.clone(), None)],
                ..Default::default()
            };
            let expected = state.partition(partition).unwrap().version();
            let (id, by) = (
                ff_core::CommitId::from_parts(START, Route(0), 5),
                ff_core::ServerId::from_parts(START, Route(0), 5),
            );
            state.commit(ff_store::Commit { partition, expected, id, by, changes }, START);
        }
    });
    copy(&from, &to).await.unwrap();
    let paused = |it: &Partition| it.lanes().filter(|it| it.mode == LaneMode::Paused).count();
    assert_eq!(to.inspect(|state| state.partitions().map(|(_, it)| paused(it)).collect::<Vec<_>>()), [1; 8]);
}

fn row(number: u64, kind: &str) -> Posted {
    Posted {
        number,
        id: None,
        posted_at: START - 5,
        kind: kind.to_owned(),
        input: Payload::json(format!("[{number}]")),
        namespace: None,
        lane: None,
        key: None,
        options: None,
    }
}

#[tokio::test]
async fn posted_rows_and_dead_letters_come_along_with_their_reasons() {
    let (from, to) = (store(1), store(8));
    let engine = engine(&from).await;
    for (number, kind) in [(3, ""), (8, "\u{0}"), (9, "")] {
        from.post(row(number, kind));
    }
    while from.inspect(|state| state.partitions().any(|(_, it)| it.dead_letters().count() < 3)) {
        engine.nudge().await;
    }
    stop(engine).await;
    let keyed = Posted { key: Some("k".into()), ..row(12, "work") };
    [row(11, "work"), keyed, row(15, "work")].into_iter().for_each(|it| from.post(it));
    let done = copy(&from, &to).await.unwrap();
    assert_eq!((done.posted, done.dead_letters), (3, 3));

    let letters = |store: &MemoryStore| -> Vec<(Ms, String, String)> {
        let told = |it: &DeadLetter| {
            (it.at, it.reason.clone(), String::from_utf8_lossy(&it.posted.input.bytes).into_owned())
        };
        let mut all: Vec<_> = store
            .inspect(|state| state.partitions().flat_map(|(_, it)| it.dead_letters().map(told)).collect());
        all.sort();
        all
    };
    assert_eq!(letters(&to), letters(&from));
    assert_eq!(letters(&to).len(), 3);

    let engine = self::engine(&to).await;
    while to.inspect(|state| state.partitions().any(|(_, it)| it.inbox().next().is_some())) {
        engine.nudge().await;
    }
    stop(engine).await;
    let created = |it: &Partition| it.executions().map(|it| it.id.route()).collect::<Vec<_>>();
    let routes: Vec<Route> = to.inspect(|state| state.partitions().flat_map(|(_, it)| created(it)).collect());
    assert_eq!(routes.len(), 3);
    assert!(
        routes.contains(&Route::of_key("default", "k")),
        "a key leads where it leads everywhere: {routes:?}"
    );
}

/// What was created after a place in the log, until all of these were.
async fn created(engine: &Engine, start: Start, all: &[ExecutionId]) -> Vec<ExecutionId> {
    let mut events = engine.subscribe(EventFilter::default(), start).await.unwrap();
    let mut seen: Vec<ExecutionId> = Vec::new();
    while all.iter().any(|id| !seen.contains(id)) {
        if let Item::Event { event, .. } = events.next().await
            && matches!(event.fact, Fact::Created { .. })
        {
            seen.extend(event.execution);
        }
    }
    seen
}

#[tokio::test]
async fn a_webhook_goes_on_with_the_first_event_that_it_has_not_delivered() {
    for (before, after) in [(1, 8), (3, 1), (3, 8)] {
        let (from, to) = (store(before), store(after));
        let engine = engine(&from).await;
        for number in 0..4 {
            engine.execute(create(id(number, 1))).await.unwrap();
        }
        let now = engine.subscribe(EventFilter::default(), Start::Now).await.unwrap().cursor().to_string();
        let set = SetWebhook {
            id: "hook".into(),
            url: "https://example.com/".into(),
            secret: None,
            first_secret: Some(Secret([7; 32])),
            families: vec![],
            namespace: None,
            lane: None,
            facts: vec!["created".into()],
            paused: false,
            begin: Some(now.into()),
            actor: "ada".into(),
            cause: "".into(),
        };
        engine.execute(set).await.unwrap();
        for number in 0..4 {
            engine.execute(create(id(number, 2))).await.unwrap();
        }
        stop(engine).await;
        copy(&from, &to).await.unwrap();
        let engine = self::engine(&to).await;
        let home = HOME.partition(after);
        let ask = ff_core::key::Ask::Registry { kind: RecordKind::Webhook, id: None };
        let answers = to.load(home, vec![ask]).await.unwrap().answers;
        let ff_core::workspace::Answer::Registry { records, .. } = &answers[0] else { panic!("{answers:?}") };
        let Record::Webhook(hook) = &*records[0] else { panic!("{records:?}") };
        let cursor = hook.cursor.as_ref().unwrap().parse().unwrap();
        let (first, second) =
            ([0, 1, 2, 3].map(|route| id(route, 1)), [0, 1, 2, 3].map(|route| id(route, 2)));
        let seen = created(&engine, Start::After(cursor), &second).await;
        // Logs that become one may bring some again; one that is shared out never does.
        let again = seen.iter().any(|it| first.contains(it));
        assert!(!again || before > 1, "{before} to {after}: {seen:?}");
        assert!(seen.len() < 8, "{before} to {after}: {seen:?}");
        stop(engine).await;
    }
}
