//! How long the check for cycles takes: 100,000 edges added one by one to a flow of 10,000 open nodes, in an order that
//! has nothing to do with that of the graph.
//!
//! `cargo run --release -p ff-engine --example edges`

#![allow(clippy::unwrap_used, clippy::print_stdout)] // What goes wrong here is shown as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_core::commands::{AddEdges, AddNodes, Create, CreateFlow, NewEdge, NewNode};
use ff_core::{Command, ExecutionId, Payload, Rejection};
use ff_engine::{Engine, EngineConfig, Failure};
use ff_store::MemoryStore;

const NODES: usize = 10_000;
const EDGES: usize = 100_000;
const NOW: i64 = 1_700_000_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let engine = Engine::start(Arc::new(MemoryStore::new(1)), EngineConfig::default()).await.unwrap();
    let flow = engine.new_flow_id(NOW);
    let create = CreateFlow {
        id: flow,
        fresh: true,
        namespace: Default::default(),
        kind: "edges".parse().unwrap(),
        tags: Default::default(),
        nodes: Vec::new(),
        edges: Vec::new(),
        sealed: false,
        actor: "example".into(),
    };
    engine.execute(create).await.unwrap();
    let ids: Vec<ExecutionId> = (0..NODES).map(|_| engine.new_member_id(NOW, flow)).collect();
    for part in ids.chunks(500) {
        let node = |id: &ExecutionId| {
            let create = Create::new(*id, "noop".parse().unwrap(), Payload::json("null"));
            NewNode { open: true, ..NewNode::new(Create { fresh: true, ..create }) }
        };
        let (nodes, edges, actor) = (part.iter().map(node).collect(), Vec::new(), "example".into());
        engine.execute(AddNodes { flow, expected_revision: None, nodes, edges, actor }).await.unwrap();
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    let (mut added, mut twice, mut longest) = (0, 0, Duration::ZERO);
    let started = Instant::now();
    while added < EDGES {
        let edge = |a: usize, b: usize| {
            let edges = vec![NewEdge::new(ids[a.min(b)], ids[a.max(b)])];
            Command::from(AddEdges { flow, expected_revision: None, edges, actor: "example".into() })
        };
        let mut commands = Vec::new();
        while commands.len() < 100 {
            let (a, b) = (draw(NODES), draw(NODES));
            commands.extend((a != b).then(|| edge(a, b)));
        }
        let sent = Instant::now();
        for reply in engine.execute_all(commands).await {
            match reply {
                Ok(_) => added += 1,
                Err(Failure::Rejected(Rejection::DuplicateEdge { .. })) => twice += 1,
                Err(failure) => panic!("{failure}"),
            }
        }
        longest = longest.max(sent.elapsed());
    }
    let each = started.elapsed().as_secs_f64() * 1_000.0 / added as f64;
    println!("{added} edges one by one: {each:.4} ms each; the slowest hundred took {longest:?}");
    println!("{twice} were there already");
    engine.shutdown(Duration::from_secs(5)).await;
}
