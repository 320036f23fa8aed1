//! A plan, cut into calls that are not too large. Each node goes with the edges that lead to it, so that none
//! can start before they are there, and a hedged node with the upstreams that start one after the other.

use ff_core::ExecutionId;
use ff_core::commands::{NewEdge, NewNode};
use ff_core::rejection::Invalid;
use rustc_hash::FxHashMap;

use super::sketch::{Finished, Plan};
use super::together::components;
use crate::Error;

/// One call.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Nodes {
        nodes: Vec<NewNode>,
        edges: Vec<NewEdge>,
    },
    Edges(Vec<NewEdge>),
    /// A node with more inbound edges than one call takes is added open, and sealed when they are there.
    SealNode(ExecutionId),
}

impl Plan {
    /// The calls, in order, each with at most `items_max` nodes and edges.
    ///
    /// # Errors
    /// Something that goes in one call or not at all does not fit into one. Nothing has been sent by then.
    pub fn parts(self, items_max: usize) -> Result<Vec<Part>, Error> {
        let mut cutter = Cutter { items_max, ..Cutter::default() };
        for bundle in bundles(self.nodes) {
            cutter.add(bundle)?;
        }
        Ok(cutter.finish(self.loose))
    }
}

/// Nodes that go in one call, upstreams first.
fn bundles(nodes: Vec<Finished>) -> Vec<Vec<Finished>> {
    if nodes.iter().all(|it| it.node.hedge.is_empty()) {
        return nodes.into_iter().map(|it| vec![it]).collect();
    }
    let places: FxHashMap<ExecutionId, usize> =
        nodes.iter().enumerate().map(|(place, it)| (it.node.create.id, place)).collect();
    // Each needs its upstreams, and in a hedge they need it: what needs each other goes together.
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, Finished { node, edges }) in nodes.iter().enumerate() {
        needs[place].extend(edges.iter().filter_map(|edge| places.get(&edge.upstream)));
        for upstream in node.hedge.iter().filter_map(|(upstream, _)| places.get(upstream)) {
            needs[*upstream].push(place);
        }
    }
    let mut nodes: Vec<Option<Finished>> = nodes.into_iter().map(Some).collect();
    let together = components(&needs).into_iter();
    together.map(|places| places.into_iter().filter_map(|place| nodes[place].take()).collect()).collect()
}

/// How many nodes and edges a node counts for: those of the flow that it is count, too.
fn size(node: &NewNode) -> (usize, usize) {
    let (mut nodes, mut edges) = (1, 0);
    if let Some(child) = &node.child {
        edges += child.edges.len();
        for (inner_nodes, inner_edges) in child.nodes.iter().map(size) {
            (nodes, edges) = (nodes + inner_nodes, edges + inner_edges);
        }
    }
    (nodes, edges)
}

#[derive(Default)]
struct Cutter {
    items_max: usize,
    parts: Vec<Part>,
    /// The call that is being filled, and how much is in it.
    nodes: Vec<NewNode>,
    edges: Vec<NewEdge>,
    filled: (usize, usize),
}

impl Cutter {
    fn add(&mut self, mut bundle: Vec<Finished>) -> Result<(), Error> {
        if let [Finished { node, edges }] = bundle.as_mut_slice()
            && edges.len() > self.items_max
        {
            let inbound = std::mem::take(edges);
            let (id, was_open) = (node.create.id, std::mem::replace(&mut node.open, true));
            self.put(bundle)?;
            self.cut();
            self.parts.extend(inbound.chunks(self.items_max).map(|some| Part::Edges(some.to_vec())));
            self.parts.extend((!was_open).then_some(Part::SealNode(id)));
            return Ok(());
        }
        self.put(bundle)
    }

    fn put(&mut self, bundle: Vec<Finished>) -> Result<(), Error> {
        let (mut nodes, mut edges) = (0, 0);
        for it in &bundle {
            let (inner_nodes, inner_edges) = size(&it.node);
            (nodes, edges) = (nodes + inner_nodes, edges + inner_edges + it.edges.len());
        }
        let max = self.items_max;
        if nodes > max || edges > max {
            return Err(too_large(&bundle, nodes, edges, max).into());
        }
        if self.filled.0 + nodes > max || self.filled.1 + edges > max {
            self.cut();
        }
        self.filled = (self.filled.0 + nodes, self.filled.1 + edges);
        for Finished { node, edges } in bundle {
            self.nodes.push(node);
            self.edges.extend(edges);
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.filled = (0, 0);
        let (nodes, edges) = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.edges));
        if !nodes.is_empty() {
            self.parts.push(Part::Nodes { nodes, edges });
        }
    }

    fn finish(mut self, mut loose: Vec<NewEdge>) -> Vec<Part> {
        if !self.nodes.is_empty() && self.filled.1 + loose.len() <= self.items_max {
            self.edges.append(&mut loose);
        }
        self.cut();
        self.parts.extend(loose.chunks(self.items_max).map(|some| Part::Edges(some.to_vec())));
        self.parts
    }
}

fn too_large(bundle: &[Finished], nodes: usize, edges: usize, max: usize) -> Invalid {
    let hedged = bundle.iter().find(|it| !it.node.hedge.is_empty());
    let (it, what, whole) = match (hedged, bundle) {
        (Some(it), _) => (it, "hedge", "goes in one call with all it starts and what lies between"),
        (None, [it, ..]) => (it, "flow", "goes in one call with its node"),
        (None, []) => return Invalid::new("nodes", format!("are {nodes}; allowed are at most {max}")),
    };
    let name = it.node.name.as_ref().map_or_else(|| it.node.create.kind.to_string(), |it| it.to_string());
    let problem = format!("{whole}: {nodes} nodes and {edges} edges; allowed are at most {max} of each");
    Invalid::new(format!("nodes.{name}.{what}"), problem)
}
