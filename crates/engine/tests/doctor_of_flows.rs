//! The doctor counts flows again, and sees what does not agree.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;
use std::time::Duration;

use ff_core::agenda::{AgendaEntry, AgendaKey, Subject};
use ff_core::change::{Changes, ExecutionChange};
use ff_core::commands::{Cancel, Create, CreateFlow, NewEdge, NewNode};
use ff_core::flow::{Edge, Flow, GroupState, Passing, Walk};
use ff_core::tags::Tags;
use ff_core::{CommitId, Execution, ExecutionId, FlowId, PartitionId, Payload, Route, ServerId};
use ff_engine::{Engine, EngineConfig, doctor};
use ff_store::memory::MemoryStore;
use ff_store::{Commit, Outcome};

const HOME: PartitionId = PartitionId(0);

/// A flow of four: `a` was cancelled, so `b` is skipped; `c` leads to `d`, which waits.
async fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new(1));
    let engine = Engine::start(store.clone(), EngineConfig::default()).await.unwrap();
    let ids: Vec<ExecutionId> = (1..=4).map(|n| ExecutionId::from_parts(1, Route(0), n)).collect();
    let node = |id: &ExecutionId| NewNode::new(Create::new(*id, "work".parse().unwrap(), Payload::json("1")));
    let flow = CreateFlow {
        id: FlowId::from_parts(1, Route(0), 9),
        fresh: false,
        namespace: "default".parse().unwrap(),
        kind: "nightly".parse().unwrap(),
        tags: Tags::default(),
        nodes: ids.iter().map(node).collect(),
        edges: vec![NewEdge::new(ids[0], ids[1]), NewEdge::new(ids[2], ids[3])],
        sealed: true,
        actor: "ada".into(),
    };
    engine.execute(flow).await.unwrap();
    let (actor, cause) = ("ada".into(), "enough".into());
    engine.execute(Cancel { execution: ids[0], actor, cause, grace_ms: None }).await.unwrap();
    engine.shutdown(Duration::from_secs(5)).await;
    store
}

/// Everything of the one flow, to be damaged.
struct Parts {
    flow: Flow,
    members: Vec<Execution>,
    edges: Vec<Edge>,
}

type Damage = fn(&Parts) -> Changes;

fn flow(parts: &Parts, edit: impl FnOnce(&mut Flow)) -> Changes {
    let mut flow = parts.flow.clone();
    edit(&mut flow);
    Changes { flows: vec![(flow.id, Some(Arc::new(flow)))], ..Changes::default() }
}

fn member(parts: &Parts, at: usize, edit: impl FnOnce(&mut Execution)) -> Changes {
    let mut member = parts.members[at].clone();
    edit(&mut member);
    Changes { executions: vec![ExecutionChange::Update(Arc::new(member))], ..Changes::default() }
}

fn edge(parts: &Parts, at: usize, edit: impl FnOnce(&mut Edge)) -> Changes {
    let mut edge = parts.edges[at].clone();
    edit(&mut edge);
    Changes { edges: vec![(edge.key, Some(Arc::new(edge)))], ..Changes::default() }
}

async fn problems(damage: Damage) -> Vec<String> {
    let store = store().await;
    let found = doctor::examine(&*store).await.unwrap();
    assert_eq!((found.flows, found.executions, found.problems), (1, 4, vec![]));
    store.edit(|state| {
        let home = state.partition(HOME).unwrap();
        let parts = Parts {
            flow: (**home.flows().next().unwrap()).clone(),
            members: home.executions().map(|it| (**it).clone()).collect(),
            edges: home.edges().map(|it| (**it).clone()).collect(),
        };
        let (expected, header) = (home.version(), *home.header());
        let changes = Changes { header, ..damage(&parts) };
        let id = CommitId::from_parts(1, Route(0), 1);
        let by = ServerId::from_parts(1, Route(0), 1);
        let commit = Commit { partition: HOME, expected, id, by, changes };
        assert!(matches!(state.commit(commit, 1), Outcome::Committed { .. }));
    });
    doctor::examine(&*store).await.unwrap().problems
}

#[tokio::test]
async fn everything_a_flow_a_node_or_an_edge_says_is_counted_again() {
    let damages: [(&str, Damage); 14] = [
        ("summary", |it| flow(it, |flow| flow.live.summary.add(ff_core::PublicState::Active))),
        ("held members", |it| flow(it, |flow| flow.live.held += 1)),
        ("open nodes", |it| flow(it, |flow| flow.live.open_nodes += 1)),
        ("too few edges", |it| flow(it, |flow| flow.live.short_groups += 1)),
        ("passing news on", |it| flow(it, |flow| flow.live.passing += 1)),
        ("failures", |it| flow(it, |flow| flow.live.failures = 0)),
        ("says that it has 5 nodes", |it| flow(it, |flow| flow.live.nodes += 1)),
        ("says that it has 3 edges", |it| flow(it, |flow| flow.live.edges += 1)),
        ("its edges make it", |it| node(it, 3, |node| node.group.satisfied += 1)),
        ("in need of it", |it| node(it, 2, |node| node.needed = 0)),
        ("dependents", |it| node(it, 2, |node| node.dependents += 1)),
        ("where its group does not put it", |it| {
            node(it, 3, |node| node.group.state = GroupState::Satisfied)
        }),
        ("has counted", |it| edge(it, 0, |edge| edge.counted = None)),
        ("is needed", |it| edge(it, 1, |edge| edge.needed = false)),
    ];
    for (expected, damage) in damages {
        let problems = problems(damage).await;
        assert!(problems.iter().any(|it| it.contains(expected)), "{expected}: {problems:#?}");
    }
}

fn node(parts: &Parts, at: usize, edit: impl FnOnce(&mut ff_core::flow::Node)) -> Changes {
    member(parts, at, |member| edit(member.live.node.as_mut().unwrap()))
}

#[tokio::test]
async fn what_is_left_to_pass_on_or_to_visit_is_in_the_agenda() {
    let missing: [Damage; 2] = [
        |it| flow(it, |flow| flow.live.walk = Some(Walk { since: 1, after: 0, revive: false })),
        |it| node(it, 0, |node| node.passing = Some(Passing { since: 1, down: Some(0), up: None })),
    ];
    for damage in missing {
        let problems = problems(damage).await;
        assert!(problems.iter().any(|it| it.contains("timers")), "{problems:#?}");
    }
    let stray: Damage = |it| {
        let key = AgendaKey { due: 1, subject: Subject::Members(it.flow.id) };
        Changes { agenda_added: vec![AgendaEntry { key, message: None }], ..Changes::default() }
    };
    let problems = problems(stray).await;
    assert!(problems.iter().any(|it| it.contains("timers")), "{problems:#?}");
}

#[tokio::test]
async fn edges_and_members_that_are_gone_are_missed() {
    let gone: [(&str, Damage); 3] = [
        ("there are 1", |it| Changes { edges: vec![(it.edges[0].key, None)], ..Changes::default() }),
        ("there are 3", |it| {
            let purge = ExecutionChange::Purge(it.members[1].id);
            Changes { executions: vec![purge], ..Changes::default() }
        }),
        ("members of flows", |it| Changes { flows: vec![(it.flow.id, None)], ..Changes::default() }),
    ];
    for (expected, damage) in gone {
        let problems = problems(damage).await;
        assert!(problems.iter().any(|it| it.contains(expected)), "{expected}: {problems:#?}");
    }
}
