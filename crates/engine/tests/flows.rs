//! Flows through the engine: described, listed, waited for, and followed by their events.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use ff_core::commands::{CancelFlow, Create, CreateFlow, NewEdge, NewNode};
use ff_core::flow::{CancelPolicy, EdgeKey, EdgeState, FlowState};
use ff_core::query::{FlowFilter, FlowPageAsk, Order};
use ff_core::tags::Tags;
use ff_core::{ExecutionId, FlowId, Kind, Namespace, Payload, Reply};
use ff_engine::config::MachineConfig;
use ff_engine::flows::Direction;
use ff_engine::subscription::Item;
use ff_engine::{Engine, EngineConfig, EventFilter, Start};
use ff_store::{MemoryStore, Store};

async fn engine(store: Arc<dyn Store>) -> Engine {
    Engine::start(store, EngineConfig::default()).await.unwrap()
}

/// A sealed flow in which the last of `count` nodes waits for all others.
fn fan_in(engine: &Engine, count: usize) -> (CreateFlow, Vec<ExecutionId>) {
    let id = engine.new_flow_id(1);
    let ids: Vec<ExecutionId> = (0..count).map(|_| engine.new_member_id(1, id)).collect();
    let kind = Kind::parse("k").unwrap();
    let node = |id: &ExecutionId| NewNode::new(Create::new(*id, kind.clone(), Payload::json("1")));
    let (last, others) = ids.split_last().unwrap();
    let create = CreateFlow {
        id,
        fresh: true,
        namespace: Namespace::default(),
        kind: kind.clone(),
        tags: Tags::default(),
        nodes: ids.iter().map(node).collect(),
        edges: others.iter().map(|id| NewEdge::new(*id, *last)).collect(),
        sealed: true,
        actor: "t".into(),
    };
    (create, ids)
}

fn cancel(flow: FlowId) -> CancelFlow {
    let (actor, cause) = ("t".into(), "".into());
    CancelFlow { flow, policy: CancelPolicy::CancelAll, members_after: 0, actor, cause }
}

#[tokio::test]
async fn a_flow_is_described_with_its_members_and_edges_in_pages() {
    let engine = engine(Arc::new(MemoryStore::new(3))).await;
    let (create, ids) = fan_in(&engine, 5);
    let id = create.id;
    engine.execute(create).await.unwrap();
    let (mut members, mut after) = (Vec::new(), 0);
    loop {
        let page = engine.describe_flow(id, after, 2).await.unwrap();
        assert_eq!((page.flow.live.nodes, page.flow.live.edges), (5, 4));
        members.extend(page.members.iter().map(|it| it.id));
        let Some(next) = page.next else { break };
        after = next;
    }
    assert_eq!(members, ids);
    let (mut upstreams, mut after) = (Vec::new(), 0);
    loop {
        let page = engine.edges(ids[4], Direction::In, after, 3).await.unwrap();
        upstreams.extend(page.edges.iter().map(|it| it.key.upstream));
        let Some(next) = page.next else { break };
        after = next;
    }
    assert_eq!(upstreams, ids[..4]);
    assert_eq!(engine.edges(ids[0], Direction::Out, 0, 9).await.unwrap().edges.len(), 1);
    assert_eq!(engine.edges(ids[4], Direction::Out, 0, 9).await.unwrap().edges, []);
    let key = EdgeKey { upstream: ids[1], downstream: ids[4] };
    assert_eq!(engine.edge(key).await.unwrap().unwrap().state(), EdgeState::Pending);
    let graph = engine.graph(id, 100).await.unwrap();
    assert_eq!((graph.members.len(), graph.edges.len(), graph.more), (5, 4, false));
    assert!(engine.graph(id, 4).await.unwrap().more);
}

/// A command that needs such a record would wait until it gives up.
#[tokio::test]
async fn flows_that_left_the_cache_are_read_as_often_as_they_are_needed() {
    let machine = MachineConfig { cache_max: 2, ..MachineConfig::default() };
    let config = EngineConfig { machine, command_timeout_ms: 5_000, ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(MemoryStore::new(1)), config).await.unwrap();
    let mut flows = Vec::new();
    for _ in 0..6 {
        let (create, _) = fan_in(&engine, 3);
        flows.push(create.id);
        engine.execute(create).await.unwrap();
    }
    for _ in 0..3 {
        for flow in &flows {
            engine.execute(cancel(*flow)).await.unwrap();
        }
    }
    for flow in flows {
        assert_eq!(engine.wait_flow(flow).await.unwrap().state(), FlowState::Cancelled);
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let engine = engine(Arc::new(MemoryStore::new(1))).await;
    let id = engine.new_flow_id(1);
    assert_eq!(engine.flow(id).await.unwrap(), None);
    assert_eq!(engine.describe_flow(id, 0, 1).await.unwrap_err().code(), "not_found");
    assert_eq!(engine.wait_flow(id).await.unwrap_err().code(), "not_found");
    let node = ExecutionId(id.0);
    assert_eq!(engine.edges(node, Direction::In, 0, 1).await.unwrap_err().code(), "not_found");
    assert_eq!(engine.edge(EdgeKey { upstream: node, downstream: node }).await.unwrap(), None);
}

#[tokio::test]
async fn the_end_of_a_flow_is_waited_for_also_if_it_comes_from_another_process() {
    let store = MemoryStore::new(2);
    let here = engine(Arc::new(store.another())).await;
    let there = engine(Arc::new(store.another())).await;
    for ender in [&here, &there] {
        let (create, _) = fan_in(&here, 3);
        let id = create.id;
        here.execute(create).await.unwrap();
        let waiting = here.wait_flow(id);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            ended = &mut waiting => panic!("it has not ended: {ended:?}"),
            () = here.nudge() => {}
        }
        let (ended, _) = tokio::join!(waiting, ender.execute(cancel(id)));
        assert_eq!(ended.unwrap().state(), FlowState::Cancelled);
        // What has ended is answered at once.
        assert_eq!(here.wait_flow(id).await.unwrap().state(), FlowState::Cancelled);
    }
}

#[tokio::test]
async fn flows_are_listed_by_what_they_are() {
    let engine = engine(Arc::new(MemoryStore::new(3))).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        let (create, _) = fan_in(&engine, 2);
        ids.push(create.id);
        engine.execute(create).await.unwrap();
        if n % 2 == 0 {
            engine.execute(cancel(ids[n])).await.unwrap();
        }
    }
    ids.sort();
    let ask = |states| FlowPageAsk {
        filter: FlowFilter { states, ..FlowFilter::default() },
        order: Order::OldestFirst,
        after: None,
        limit: 10,
        scan_max: 100,
    };
    let all = engine.flows(ask(vec![])).await.unwrap();
    assert_eq!(all.flows.iter().map(|it| it.id).collect::<Vec<_>>(), ids);
    assert_eq!(engine.flows(ask(vec![FlowState::Cancelled])).await.unwrap().flows.len(), 2);
    assert_eq!(engine.flows(ask(vec![FlowState::Failed])).await.unwrap().flows, []);
}

#[tokio::test]
async fn events_of_a_flow_are_its_own_and_those_of_its_members() {
    let engine = engine(Arc::new(MemoryStore::new(1))).await;
    let [(mine, ids), (other, _)] = [fan_in(&engine, 2), fan_in(&engine, 2)];
    let id = mine.id;
    let reply = engine.execute_all(vec![mine.into(), other.into()]).await;
    assert!(reply.iter().all(|it| matches!(it, Ok(Reply::Flow { existing: false, .. }))));
    engine.execute(cancel(id)).await.unwrap();
    let filter = EventFilter { flow: Some(id), ..EventFilter::default() };
    let mut events = engine.subscribe(filter, Start::Beginning).await.unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&"flow_ended") {
        let Item::Event { event, .. } = events.next().await else { panic!("nothing interrupts memory") };
        assert_eq!(event.flow, Some(id));
        assert!(event.execution.is_none_or(|it| ids.contains(&it)));
        seen.push(event.fact.word());
    }
    for word in ["flow_created", "created", "flow_cancel_requested", "cancelled"] {
        assert!(seen.contains(&word), "{word} is not among {seen:?}");
    }
}
