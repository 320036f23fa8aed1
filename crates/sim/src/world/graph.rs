//! Random parts of graphs: nodes with every policy, and the edges that lead to them.

use ff_core::commands::{Create, NewChild, NewEdge, NewNode};
use ff_core::flow::{Join, On, OnSatisfied};
use ff_core::tags::Tags;
use ff_core::{ExecutionId, FlowId, Ms, Route};

use super::submission::{kind, submission};
use crate::profile::Profile;
use crate::rng::Rng;

/// What new nodes may hang on.
#[derive(Debug)]
pub struct Ground {
    pub route: Route,
    pub now: Ms,
    /// Members that are there already.
    pub members: Vec<ExecutionId>,
    /// Whether nodes may be added that get more inbound edges later.
    pub open: bool,
    /// How many flows may still be inside one another.
    pub depth: u8,
}

#[derive(Debug, Default)]
pub struct Parts {
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
}

impl Parts {
    pub fn draw(rng: &mut Rng, profile: &Profile, ground: &Ground, count: usize) -> Parts {
        let mut parts = Parts::default();
        let mut hedged = Vec::new();
        for _ in 0..count {
            let mut node = new_node(rng, profile, ground);
            if ground.depth > 0 && rng.chance(800) {
                node.child = Some(Box::new(new_child(rng, profile, ground)));
            }
            parts.add(rng, ground, node, &mut hedged);
        }
        parts
    }

    fn add(&mut self, rng: &mut Rng, ground: &Ground, mut node: NewNode, hedged: &mut Vec<ExecutionId>) {
        let id = node.create.id;
        let mut upstreams: Vec<ExecutionId> = Vec::new();
        for _ in 0..*rng.pick(&[0, 1, 1, 2, 3, 5]) {
            let upstream = match rng.chance(3_000) || self.nodes.is_empty() {
                true if ground.members.is_empty() => continue,
                true => *rng.pick(&ground.members),
                false => rng.pick(&self.nodes).create.id,
            };
            if !upstreams.contains(&upstream) {
                upstreams.push(upstream);
            }
        }
        node.open = ground.open && rng.chance(2_000);
        node.join = join(rng, upstreams.len(), node.open);
        let place = |id: &ExecutionId| self.nodes.iter().position(|node| node.create.id == *id);
        let mut spares: Vec<ExecutionId> =
            upstreams.iter().filter(|id| place(id).is_some()).copied().collect();
        if !rng.chance(1_000) {
            // The other way round a spare may be waited for by the one it is for, which is refused.
            spares.sort_by_key(place);
        }
        if spares.len() > 1 && !spares.iter().any(|id| hedged.contains(id)) && rng.chance(4_000) {
            hedged.extend(&spares);
            node.hedge = spares.into_iter().map(|id| (id, rng.range(0, 3_000))).collect();
        }
        self.edges.extend(upstreams.into_iter().map(|upstream| new_edge(rng, upstream, id)));
        self.nodes.push(node);
    }
}

pub fn new_edge(rng: &mut Rng, upstream: ExecutionId, downstream: ExecutionId) -> NewEdge {
    let on = *rng.pick(&[On::Success, On::Success, On::Success, On::Success, On::Failure, On::Always]);
    NewEdge { on, ..NewEdge::new(upstream, downstream) }
}

/// A policy for so many inbound edges, now and then for more than there are.
pub fn join(rng: &mut Rng, inbound: usize, open: bool) -> Join {
    let on_satisfied = *rng.pick(&[OnSatisfied::CancelRemaining, OnSatisfied::LetRun]);
    if inbound == 0 && !open && !rng.chance(300) {
        return Join::AllOf;
    }
    let most = inbound.max(1) as i64 + i64::from(rng.chance(if open { 5_000 } else { 200 }));
    match rng.below(4) {
        0 | 1 => Join::AllOf,
        2 => Join::AnyOf { on_satisfied },
        _ => Join::Quorum { k: rng.range(1, most) as u32, on_satisfied },
    }
}

/// A small flow that a node stands for.
fn new_child(rng: &mut Rng, profile: &Profile, ground: &Ground) -> NewChild {
    let sealed = rng.chance(8_000);
    let Ground { route, now, depth, .. } = *ground;
    let inner = Ground { route, now, members: Vec::new(), open: !sealed, depth: depth - 1 };
    let count = *rng.pick(&[0, 1, 2, 4]);
    let Parts { nodes, edges } = Parts::draw(rng, profile, &inner, count);
    let id = FlowId::from_parts(now, route, rng.draw());
    NewChild { id, kind: kind("send"), tags: Tags::default(), nodes, edges, sealed }
}

fn new_node(rng: &mut Rng, profile: &Profile, ground: &Ground) -> NewNode {
    let create = submission(rng, profile, ground.now);
    let id = ExecutionId::from_parts(ground.now, ground.route, rng.draw());
    // Every other node has a name, which no other node has.
    let bits = id.0.as_u64_pair().1;
    let name = bits.is_multiple_of(2).then(|| format!("n{bits:016x}").parse().ok()).flatten();
    NewNode { name, ..NewNode::new(Create { id, idempotency_key: None, ..create }) }
}
