//! Flows of work that does nothing.

use std::sync::Arc;

use ff_core::commands::{AddNodes, Create, CreateFlow, NewEdge, NewNode, Seal};
use ff_core::flow::Join;
use ff_core::{Command, ExecutionId, Flow, FlowId, Payload};
use ff_engine::Engine;
use ff_store::{Clock, SystemClock};

use crate::bed::NOOP;

/// How many nodes go with one call; each has two edges at most.
const PART: usize = 500;

/// A flow to be made.
#[derive(Debug)]
pub struct Graph {
    pub flow: FlowId,
    now: i64,
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
}

impl Graph {
    pub fn new(engine: &Engine) -> Graph {
        let now = now();
        Graph { flow: engine.new_flow_id(now), now, nodes: Vec::new(), edges: Vec::new() }
    }

    pub fn add(&mut self, engine: &Engine) -> anyhow::Result<ExecutionId> {
        let id = engine.new_member_id(self.now, self.flow);
        let create = Create { fresh: true, ..Create::new(id, NOOP.parse()?, Payload::json("null")) };
        self.nodes.push(NewNode::new(create));
        Ok(id)
    }

    pub fn edge(&mut self, upstream: ExecutionId, downstream: ExecutionId) {
        self.edges.push(NewEdge::new(upstream, downstream));
    }

    pub fn join(&mut self, node: ExecutionId, join: Join) {
        self.nodes.iter_mut().filter(|it| it.create.id == node).for_each(|it| it.join = join);
    }

    /// Sends it, in parts if it is larger than one call may be.
    pub async fn submit(self, engine: &Engine) -> anyhow::Result<FlowId> {
        let flow = self.flow;
        for reply in engine.execute_all(self.into_commands()?).await {
            reply?;
        }
        Ok(flow)
    }

    fn into_commands(self) -> anyhow::Result<Vec<Command>> {
        let Graph { flow, mut nodes, mut edges, .. } = self;
        let create = |nodes, edges, sealed| {
            anyhow::Ok(CreateFlow {
                id: flow,
                fresh: true,
                namespace: Default::default(),
                kind: "bench".parse()?,
                tags: Default::default(),
                nodes,
                edges,
                sealed,
                actor: "bench".into(),
            })
        };
        if nodes.len() <= PART && edges.len() <= 2 * PART {
            return Ok(vec![create(nodes, edges, true)?.into()]);
        }
        // The last node is where everything comes together: it is open until all its edges are there.
        let mut last = nodes.split_off(nodes.len() - 1);
        last.iter_mut().for_each(|node| node.open = true);
        let first = nodes.drain(..PART.min(nodes.len())).chain(last).collect::<Vec<_>>();
        let mut commands = vec![create(first.clone(), take(&mut edges, &first), false)?.into()];
        let mut known = first;
        while !nodes.is_empty() {
            let part: Vec<NewNode> = nodes.drain(..PART.min(nodes.len())).collect();
            known.extend(part.iter().cloned());
            let edges = take(&mut edges, &known);
            let (expected_revision, actor) = (None, "bench".into());
            commands.push(AddNodes { flow, expected_revision, nodes: part, edges, actor }.into());
        }
        let (node, expected_revision) = (None, None);
        let (actor, cause) = ("bench".into(), "all is there".into());
        commands.push(Seal { flow, node, expected_revision, actor, cause }.into());
        Ok(commands)
    }
}

/// Takes the edges whose ends are both known.
fn take(edges: &mut Vec<NewEdge>, known: &[NewNode]) -> Vec<NewEdge> {
    let known: std::collections::HashSet<ExecutionId> = known.iter().map(|it| it.create.id).collect();
    let is_known = |edge: &NewEdge| known.contains(&edge.upstream) && known.contains(&edge.downstream);
    let (ready, later) = std::mem::take(edges).into_iter().partition(is_known);
    *edges = later;
    ready
}

/// Submits a flow and waits for its end.
pub async fn run(engine: &Engine, graph: Graph) -> anyhow::Result<Arc<Flow>> {
    let flow = graph.submit(engine).await?;
    Ok(engine.wait_flow(flow).await?)
}

/// Ids carry a time so that they sort; it need not be the store's.
fn now() -> i64 {
    SystemClock.now()
}
