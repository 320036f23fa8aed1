//! The doctor looks at what arrived for executions and what they left behind, and sees what does not agree.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;
use std::time::Duration;

use ff_core::change::{Changes, ExecutionChange};
use ff_core::commands::{Create, SendSignal, To};
use ff_core::execution::State;
use ff_core::state::Reason;
use ff_core::step::{Step, StepKey, StepKind};
use ff_core::stream::{Frame, FrameMode, Stream};
use ff_core::suspension::{ClosedWaitpoint, Condition, Match, OnTimeout, Signal, Suspension, Waitpoint};
use ff_core::{CommitId, Execution, ExecutionId, PartitionId, Payload, Route, ServerId};
use ff_engine::{Engine, EngineConfig, doctor};
use ff_store::memory::MemoryStore;
use ff_store::{Commit, Outcome};

const HOME: PartitionId = PartitionId(0);

/// One execution that waits in its lane and has a signal.
async fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new(1));
    let engine = Engine::start(store.clone(), EngineConfig::default()).await.unwrap();
    let id = ExecutionId::from_parts(1, Route(0), 1);
    engine.execute(Create::new(id, "work".parse().unwrap(), Payload::json("1"))).await.unwrap();
    let name = Some("go".parse().unwrap());
    engine.execute(SendSignal { name, ..SendSignal::new(To::Execution(id)) }).await.unwrap();
    engine.shutdown(Duration::from_secs(5)).await;
    store
}

fn suspend(it: &mut Execution, condition: Condition) {
    let (reason, since, timeout_at) = (Reason::WaitingForSignal, 1, None);
    let on_timeout = OnTimeout::Fail;
    it.live.state = State::Suspended(Box::new(Suspension {
        condition,
        reason,
        since,
        timeout_at,
        on_timeout,
        step: None,
    }));
}

fn at(waitpoint: u32) -> Condition {
    Condition::Signal(Match { waitpoint: Some(waitpoint), ..Match::default() })
}

/// Writes changes that no command would make.
fn damage(store: &MemoryStore, changes: impl FnOnce(&Execution) -> Changes) {
    store.edit(|state| {
        let (version, header, it) = {
            let partition = state.partition(HOME).unwrap();
            let it = partition.executions().next().unwrap();
            (partition.version(), *partition.header(), (**it).clone())
        };
        let changes = Changes { header, ..changes(&it) };
        let id = CommitId::from_parts(1, Route(0), 99);
        let by = ServerId::from_parts(1, Route(0), 1);
        let commit = Commit { partition: HOME, expected: version, id, by, changes };
        assert!(matches!(state.commit(commit, header.now), Outcome::Committed { .. }));
    });
}

#[tokio::test]
async fn everything_that_can_disagree_is_seen() {
    type Damage = fn(&mut Execution);
    let cases: [(Damage, &str); 9] = [
        (
            |it| {
                it.mailbox_mut().waitpoints.push(Waitpoint {
                    number: 1,
                    name: None,
                    opened_at: 1,
                    expires_at: None,
                    digest: None,
                    approvers: Vec::new(),
                    requester: None,
                    distinct_sources: false,
                    known_sources: false,
                    step: None,
                    token_signals: 0,
                });
            },
            "lists 0 open waitpoints, executions call for 1",
        ),
        (|it| it.mailbox_mut().received = 2, "signal 2 of"),
        (|it| it.live.stepped = true, "says that steps are recorded"),
        (|it| it.live.streamed = true, "the output stream of"),
        (|it| suspend(it, Condition::Time), "until a time that it does not have"),
        (|it| suspend(it, Condition::Signal(Match::default())), "although what it waits for is there"),
        (|it| suspend(it, at(1)), "a waitpoint that is closed or missing"),
        (
            |it| {
                it.mailbox_mut().opened = 1;
                it.mailbox_mut().closed.push(ClosedWaitpoint { number: 1, expires_at: None, digest: None });
                suspend(it, Condition::AllOf(vec![at(1), Condition::Operator]));
            },
            "a waitpoint that is closed or missing",
        ),
        (
            |it| suspend(it, Condition::Child(ExecutionId::from_parts(1, Route(0), 7))),
            "or a child that it does not have",
        ),
    ];
    for (edit, problem) in cases {
        let store = store().await;
        let found = doctor::examine(&*store).await.unwrap();
        assert_eq!((found.executions, found.problems), (1, vec![]));
        damage(&store, |it| {
            let mut it = it.clone();
            edit(&mut it);
            let executions = vec![ExecutionChange::Update(Arc::new(it))];
            Changes { executions, ..Changes::default() }
        });
        let found = doctor::examine(&*store).await.unwrap().problems;
        assert!(found.iter().any(|it| it.contains(problem)), "{problem}: {found:?}");
    }
}

#[tokio::test]
async fn what_an_execution_left_behind_when_it_went_is_seen() {
    type Left = fn(ExecutionId) -> Changes;
    let cases: [(&str, Left); 4] = [
        ("signals", |execution| {
            let (payload, name) = (Payload::json("1"), None);
            let (waitpoint, source, correlation) = (None, None, None);
            let signal =
                Signal { execution, number: 1, at: 1, name, waitpoint, source, correlation, payload };
            Changes { signals: vec![signal], ..Changes::default() }
        }),
        ("steps", |execution| {
            let key = StepKey { name: "a".parse().unwrap(), occurrence: 1 };
            let (kind, result) = (StepKind::Run, Payload::json("1"));
            let step =
                Step { execution, key, number: 1, kind, attempt: 1, started_at: 1, ended_at: 1, result };
            Changes { steps: vec![step], ..Changes::default() }
        }),
        ("stream", |execution| {
            let stream = Some(Arc::new(Stream::new(execution, 1)));
            Changes { streams: vec![(execution, stream)], ..Changes::default() }
        }),
        ("frames", |execution| {
            let (kind, mode) = ("text".parse().unwrap(), FrameMode::Durable);
            let bytes = b"x".as_slice().into();
            let frame = Frame { execution, attempt: 1, number: 1, at: 1, kind, mode, bytes };
            Changes { frames: vec![frame], ..Changes::default() }
        }),
    ];
    let nobody = ExecutionId::from_parts(1, Route(0), 77);
    for (what, left) in cases {
        let store = store().await;
        damage(&store, |_| left(nobody));
        let found = doctor::examine(&*store).await.unwrap().problems;
        assert_eq!(found, [format!("{what} of {nobody}, which is not there")]);
    }
}
