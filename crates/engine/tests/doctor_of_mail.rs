//! The doctor looks at what arrived for executions and what they left behind, and sees what does not agree.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;
use std::time::Duration;

use ff_core::change::{Changes, ExecutionChange};
use ff_core::commands::{Create, SendSignal, To};
use ff_core::execution::State;
use ff_core::state::Reason;
use ff_core::suspension::{Condition, Match, OnTimeout, Suspension, Waitpoint};
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

#[tokio::test]
async fn everything_that_can_disagree_is_seen() {
    type Damage = fn(&mut Execution);
    let cases: [(Damage, &str); 6] = [
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
                    step: None,
                });
            },
            "lists 0 open waitpoints, executions call for 1",
        ),
        (|it| it.mailbox_mut().received = 2, "signal 2 of"),
        (|it| it.live.stepped = true, "says that steps are recorded"),
        (|it| it.live.streamed = true, "the output stream of"),
        (|it| suspend(it, Condition::Time), "until a time that it does not have"),
        (|it| suspend(it, Condition::Signal(Match::default())), "although what it waits for is there"),
    ];
    for (damage, problem) in cases {
        let store = store().await;
        let found = doctor::examine(&*store).await.unwrap();
        assert_eq!((found.executions, found.problems), (1, vec![]));
        store.edit(|state| {
            let (version, header, mut it) = {
                let partition = state.partition(HOME).unwrap();
                let it = partition.executions().next().unwrap();
                (partition.version(), *partition.header(), (**it).clone())
            };
            damage(&mut it);
            let executions = vec![ExecutionChange::Update(Arc::new(it))];
            let changes = Changes { header, executions, ..Changes::default() };
            let id = CommitId::from_parts(1, Route(0), 99);
            let by = ServerId::from_parts(1, Route(0), 1);
            let commit = Commit { partition: HOME, expected: version, id, by, changes };
            assert!(matches!(state.commit(commit, header.now), Outcome::Committed { .. }));
        });
        let found = doctor::examine(&*store).await.unwrap().problems;
        assert!(found.iter().any(|it| it.contains(problem)), "{problem}: {found:?}");
    }
}
