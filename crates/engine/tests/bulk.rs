//! Bulk operations: what they reach, who carries them out, and that nothing is done twice.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use ff_core::commands::{Cancel, Create, Replay, StartBulk};
use ff_core::query::Filter;
use ff_core::registry::{Action, BulkOperation, BulkState, PART_MAX, Selection};
use ff_core::{Command, ExecutionId, Kind, Ms, Namespace, Payload, PublicState};
use ff_engine::bulk::{NewBulk, Which, Whose};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, EventFilter, Start};
use ff_store::{ManualClock, MemoryStore, Store as _};

const START: Ms = 1_800_000_000_000;
const CANCEL: Action = Action::Cancel { grace_ms: None };

/// Two servers on one store whose time stands still until it is moved.
struct Pair {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    here: Engine,
    there: Engine,
}

async fn pair(partitions: u16) -> Pair {
    let clock = Arc::new(ManualClock::at(START));
    let store = MemoryStore::with_clock(partitions, clock.clone());
    let config = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    let here = Engine::start(Arc::new(store.another()), config.clone()).await.unwrap();
    let there = Engine::start(Arc::new(store.another()), config).await.unwrap();
    Pair { clock, store, here, there }
}

async fn create(engine: &Engine, kind: &str, namespace: &str, count: usize) -> Vec<ExecutionId> {
    let namespace = Namespace::parse(namespace).unwrap();
    let create = |_| {
        let id = engine.new_execution_id(START, namespace.as_str(), None);
        let create = Create::new(id, Kind::parse(kind).unwrap(), Payload::json("1"));
        Command::from(Create { namespace: namespace.clone(), ..create })
    };
    let commands: Vec<Command> = (0..count).map(create).collect();
    let ids = commands.iter().map(|it| match it {
        Command::Create(it) => it.id,
        other => panic!("{other:?}"),
    });
    let ids = ids.collect();
    engine.execute_all(commands).await.into_iter().for_each(|reply| drop(reply.unwrap()));
    ids
}

fn of_kind(kind: &str) -> Filter {
    Filter { kind: Some(Kind::parse(kind).unwrap()), ..Filter::default() }
}

fn bulk(action: Action, which: Which) -> NewBulk {
    let (actor, cause) = ("ada".into(), "test".into());
    NewBulk { id: None, action, which, rate: None, namespaces: Vec::new(), actor, cause }
}

/// Begins one that nobody carries out yet.
async fn begin(engine: &Engine, action: Action, selection: Selection, rate: Option<u32>) -> BulkOperation {
    let command = StartBulk {
        id: engine.new_bulk_id(),
        action,
        selection,
        rate,
        namespaces: Vec::new(),
        expected: None,
        server: None,
        actor: "ada".into(),
        cause: "test".into(),
    };
    let id = command.id.clone();
    engine.execute(command).await.unwrap();
    (*engine.bulk(&id).await.unwrap().unwrap()).clone()
}

fn all(filter: Filter) -> Selection {
    Selection::Filter { filter: Box::new(filter), up_to: ExecutionId(uuid::Uuid::max()), after: None }
}

async fn state(engine: &Engine, id: ExecutionId) -> PublicState {
    engine.get(id).await.unwrap().unwrap().public_state()
}

async fn count(engine: &Engine, kind: &str, state: PublicState) -> u64 {
    engine.count(&Filter { states: vec![state], ..of_kind(kind) }).await.unwrap().0
}

async fn now(engine: &Engine, id: &str) -> BulkOperation {
    (*engine.bulk(id).await.unwrap().unwrap()).clone()
}

/// Carries out everything that is due.
async fn drain(engine: &Engine, whose: Whose) -> Option<Ms> {
    loop {
        match engine.advance_bulks(whose).await.unwrap() {
            Some(0) => {}
            wait => return wait,
        }
    }
}

#[tokio::test]
async fn everything_that_matches_is_done_and_nothing_else() {
    for partitions in [1, 3] {
        let Pair { here, .. } = pair(partitions).await;
        create(&here, "a", "default", 2 * PART_MAX + 7).await;
        create(&here, "b", "default", 5).await;
        let mut events = here.subscribe(EventFilter::default(), Start::Now).await.unwrap();
        let begun = here.start_bulk(bulk(CANCEL, Which::Filter(Box::new(of_kind("a"))))).await.unwrap();
        assert_eq!(begun.expected, Some(2 * PART_MAX as u64 + 7));
        let ended = here.wait_bulk(&begun.id).await.unwrap();
        let counts = &ended.counts;
        assert_eq!((ended.state, counts.done, counts.failed), (BulkState::Finished, 1_007, 0));
        assert_eq!((counts.seen, counts.skipped.len()), (1_007, 0));
        assert_eq!(count(&here, "a", PublicState::Cancelled).await, 1_007);
        assert_eq!(count(&here, "b", PublicState::Waiting).await, 5);
        let mut words = Vec::new();
        // Partitions do not wait for each other: its end may be told before the last of them.
        while words.len() < 1_007 + 2 {
            let Item::Event { event, .. } = events.next().await else { panic!("the store is there") };
            let told = serde_json::to_string(&event).unwrap();
            let word = event.fact.word();
            assert!(word == "bulk_finished" || told.contains("\"ada\""), "{told}");
            words.push(word);
        }
        for (word, times) in [("bulk_started", 1), ("cancelled", 1_007), ("bulk_finished", 1)] {
            assert_eq!(words.iter().filter(|it| **it == word).count(), times, "{word}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_told_with_its_reason() {
    let Pair { here, .. } = pair(3).await;
    let ids = create(&here, "a", "default", 4).await;
    let cancel = |execution| Cancel { execution, actor: "bob".into(), cause: "".into(), grace_ms: None };
    here.execute(cancel(ids[1])).await.unwrap();
    let unknown = here.new_execution_id(START, "default", None);
    let which = Which::Ids(vec![ids[0], unknown, ids[1], ids[2]]);
    let begun = here.start_bulk(bulk(CANCEL, which)).await.unwrap();
    let ended = here.wait_bulk(&begun.id).await.unwrap();
    let skipped: Vec<(&str, u64)> = ended.counts.skipped.iter().map(|(code, n)| (&**code, *n)).collect();
    assert_eq!(skipped, [("already", 1), ("not_found", 1)]);
    assert_eq!((ended.counts.seen, ended.counts.done), (4, 2));
    let told: Vec<ExecutionId> = ended.counts.problems.iter().map(|it| it.execution).collect();
    assert_eq!(told, [unknown, ids[1]]);
    assert_eq!(state(&here, ids[3]).await, PublicState::Waiting);
    let by = here.get(ids[1]).await.unwrap().unwrap().end().unwrap().cancelled.clone().unwrap();
    assert_eq!(&*by.actor, "bob", "what was done before stands");
}

#[tokio::test]
async fn a_rate_is_kept_by_the_clock_of_the_store() {
    let Pair { clock, here, .. } = pair(1).await;
    create(&here, "a", "default", 5).await;
    let begun = begin(&here, CANCEL, all(of_kind("a")), Some(2)).await;
    for done in [2, 4] {
        assert_eq!(drain(&here, Whose::Anybodys).await, Some(1_000));
        assert_eq!(count(&here, "a", PublicState::Cancelled).await, done);
        clock.advance(999);
        assert_eq!(drain(&here, Whose::Anybodys).await, Some(1));
        assert_eq!(count(&here, "a", PublicState::Cancelled).await, done, "not before its time");
        clock.advance(1);
    }
    assert_eq!(drain(&here, Whose::Anybodys).await, None);
    let ended = now(&here, &begun.id).await;
    assert_eq!((ended.state, ended.counts.done), (BulkState::Finished, 5));
}

#[tokio::test]
async fn the_task_that_carries_it_out_waits_for_the_rate_and_wakes_with_the_clock() {
    let Pair { clock, here, .. } = pair(1).await;
    create(&here, "a", "default", 3).await;
    let new = NewBulk { rate: Some(1), ..bulk(CANCEL, Which::Filter(Box::new(of_kind("a")))) };
    let begun = here.start_bulk(new).await.unwrap();
    let ended = here.wait_bulk(&begun.id);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            biased;
            ended = &mut ended => {
                assert_eq!(ended.unwrap().counts.done, 3);
                break;
            }
            () = here.nudge() => clock.advance(100),
        }
    }
    assert!(here.now().await.unwrap() >= START + 2_000, "three of them take two seconds");
}

#[tokio::test]
async fn another_server_goes_on_where_one_that_is_gone_has_left_off() {
    let Pair { here, there, store, .. } = pair(3).await;
    create(&here, "a", "default", PART_MAX + 20).await;
    let begun = begin(&here, CANCEL, all(of_kind("a")), None).await;
    assert_eq!(here.advance_bulks(Whose::Anybodys).await.unwrap(), Some(0));
    assert_eq!(now(&here, &begun.id).await.server.as_deref(), Some(here.server()));
    assert_eq!(there.advance_bulks(Whose::Mine).await.unwrap(), None);
    // It knows both; what lives is left alone.
    there.nudge().await;
    store.beat(here.server().to_owned()).await.unwrap();
    let mut lives = there.is_alive(here.server());
    while !lives {
        there.nudge().await;
        tokio::task::yield_now().await;
        lives = there.is_alive(here.server());
    }
    assert_eq!(there.advance_bulks(Whose::Anybodys).await.unwrap(), None);
    // A third one has never heard of it.
    let gone = ff_core::commands::TakeBulk {
        bulk: begun.id.clone(),
        before: Some(here.server().into()),
        server: Some("gone".into()),
    };
    here.execute(gone).await.unwrap();
    assert_eq!(here.advance_bulks(Whose::Mine).await.unwrap(), None, "it is another's now");
    assert_eq!(drain(&there, Whose::Anybodys).await, None);
    let ended = now(&here, &begun.id).await;
    assert_eq!((ended.state, ended.counts.done), (BulkState::Finished, PART_MAX as u64 + 20));
    assert_eq!(count(&here, "a", PublicState::Cancelled).await, PART_MAX as u64 + 20);
}

#[tokio::test]
async fn what_was_done_before_a_crash_is_not_done_twice() {
    let Pair { clock, here, .. } = pair(1).await;
    let ids = create(&here, "a", "default", 2).await;
    let cancel = |execution| Cancel { execution, actor: "bob".into(), cause: "".into(), grace_ms: None };
    for id in &ids {
        here.execute(cancel(*id)).await.unwrap();
    }
    let begun = begin(&here, Action::Replay, all(of_kind("a")), None).await;
    clock.advance(1);
    // A server has replayed the first, which has ended again, and dies before it can note that.
    let (actor, cause) = ("ada".into(), "test".into());
    let replay = Replay { execution: ids[0], actor, cause, ended_by: Some(begun.started_at) };
    here.execute(replay).await.unwrap();
    here.execute(cancel(ids[0])).await.unwrap();
    assert_eq!(drain(&here, Whose::Anybodys).await, None);
    let ended = now(&here, &begun.id).await;
    assert_eq!((ended.counts.done, ended.counts.skipped.get("ended_since")), (1, Some(&1)));
    assert_eq!(state(&here, ids[0]).await, PublicState::Cancelled);
    assert_eq!(state(&here, ids[1]).await, PublicState::Waiting);
}

#[tokio::test]
async fn it_ends_although_it_makes_what_it_looks_for_and_others_do_too() {
    let Pair { clock, here, .. } = pair(3).await;
    create(&here, "a", "default", 3 * PART_MAX).await;
    let up_to = here.list(newest()).await.unwrap().executions[0].id;
    let selection = Selection::Filter { filter: Box::new(of_kind("a")), up_to, after: None };
    let begun = begin(&here, Action::Priority { priority: 5 }, selection, None).await;
    clock.advance(1);
    let mut parts = 0;
    while now(&here, &begun.id).await.is_running() {
        here.advance_bulks(Whose::Anybodys).await.unwrap();
        // More than a part, each time: with ids before and after those that were there.
        create(&here, "a", "default", PART_MAX + 1).await;
        parts += 1;
        assert!(parts < 50, "it does not end");
    }
    let ended = now(&here, &begun.id).await;
    assert_eq!((ended.counts.seen, ended.counts.done), (1_500, 1_500), "what came later is not its own");
}

fn newest() -> ff_core::query::PageAsk {
    ff_core::query::PageAsk {
        filter: Filter::default(),
        order: ff_core::query::Order::NewestFirst,
        after: None,
        limit: 1,
        scan_max: 10,
    }
}

#[tokio::test]
async fn namespaces_that_it_may_not_reach_are_not_there() {
    let Pair { here, .. } = pair(3).await;
    let ours = create(&here, "a", "ours", 2).await;
    let theirs = create(&here, "a", "theirs", 2).await;
    let which = Which::Ids(ours.iter().chain(&theirs).copied().collect());
    let namespaces = vec![Namespace::parse("ours").unwrap()];
    let new = NewBulk { namespaces, ..bulk(CANCEL, which) };
    let preview = here.preview_bulk(new.clone()).await.unwrap();
    assert_eq!((preview.seen, preview.done, preview.first.clone()), (4, 2, ours.clone()));
    let begun = here.start_bulk(new).await.unwrap();
    let ended = here.wait_bulk(&begun.id).await.unwrap();
    assert_eq!((ended.counts.done, ended.counts.skipped.get("not_found")), (2, Some(&2)));
    assert_eq!(state(&here, theirs[0]).await, PublicState::Waiting);
}

#[tokio::test]
async fn a_preview_changes_nothing_and_says_what_would_be() {
    let Pair { here, .. } = pair(3).await;
    let ids = create(&here, "a", "default", PART_MAX + 30).await;
    let cancel = Cancel { execution: ids[3], actor: "bob".into(), cause: "".into(), grace_ms: None };
    here.execute(cancel).await.unwrap();
    for (action, done) in [(CANCEL, PART_MAX as u64 + 29), (Action::Replay, 1)] {
        let preview = here.preview_bulk(bulk(action, Which::Filter(Box::new(of_kind("a"))))).await.unwrap();
        assert_eq!((preview.seen, preview.done, preview.more), (PART_MAX as u64 + 30, done, false));
        assert_eq!(preview.first.len() as u64, done.min(10));
    }
    assert_eq!(here.bulks().await.unwrap(), []);
    assert_eq!(count(&here, "a", PublicState::Waiting).await, PART_MAX as u64 + 29);
    let wrong = bulk(Action::Priority { priority: 101 }, Which::Filter(Box::new(of_kind("a"))));
    assert_eq!(here.preview_bulk(wrong).await.unwrap_err().code(), "invalid");
}

#[tokio::test]
async fn one_that_is_stopped_goes_no_further() {
    let Pair { here, .. } = pair(1).await;
    create(&here, "a", "default", 3 * PART_MAX).await;
    let begun = begin(&here, CANCEL, all(of_kind("a")), None).await;
    here.advance_bulks(Whose::Anybodys).await.unwrap();
    let stopped = here.stop_bulk(&begun.id, "bob", "enough").await.unwrap();
    assert_eq!((stopped.state, stopped.counts.done), (BulkState::Stopped, PART_MAX as u64));
    assert_eq!(drain(&here, Whose::Anybodys).await, None);
    assert_eq!(count(&here, "a", PublicState::Cancelled).await, PART_MAX as u64);
    assert_eq!(here.wait_bulk(&begun.id).await.unwrap(), stopped);
    assert_eq!(here.wait_bulk("bulk_0").await.unwrap_err().code(), "not_found");
    assert_eq!(here.stop_bulk("bulk_0", "bob", "").await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn the_same_again_is_the_same_operation() {
    let Pair { here, there, .. } = pair(3).await;
    create(&here, "a", "default", 3).await;
    let new = NewBulk { id: Some("mine".into()), ..bulk(CANCEL, Which::Filter(Box::new(of_kind("a")))) };
    let first = here.start_bulk(new.clone()).await.unwrap();
    let ended = here.wait_bulk(&first.id).await.unwrap();
    create(&here, "a", "default", 3).await;
    assert_eq!(there.start_bulk(new.clone()).await.unwrap(), ended);
    assert_eq!(count(&here, "a", PublicState::Waiting).await, 3);
    let other = NewBulk { rate: Some(1), ..new };
    assert_eq!(there.start_bulk(other).await.unwrap_err().code(), "id_used");
}

#[tokio::test]
async fn a_server_that_stops_leaves_its_operations_to_others_at_once() {
    let Pair { here, there, .. } = pair(1).await;
    create(&here, "a", "default", 2).await;
    let runner = here.run_bulks();
    let new = NewBulk { rate: Some(1), ..bulk(CANCEL, Which::Filter(Box::new(of_kind("a")))) };
    let begun = here.start_bulk(new).await.unwrap();
    runner.stop().await;
    assert_eq!(now(&there, &begun.id).await.server, None);
}
