//! A plan, cut into calls that are not too large. Each node goes with the edges that lead to it, so that none
//! can start before they are there.

use ff_core::ExecutionId;
use ff_core::commands::{NewEdge, NewNode};

use super::sketch::{Finished, Plan};

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
    pub fn parts(self, items_max: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for Finished { mut node, edges: inbound } in self.nodes {
            if inbound.len() > items_max {
                let (id, was_open) = (node.create.id, node.open);
                node.open = true;
                nodes.push(node);
                parts.push(Part::Nodes {
                    nodes: std::mem::take(&mut nodes),
                    edges: std::mem::take(&mut edges),
                });
                parts.extend(inbound.chunks(items_max).map(|some| Part::Edges(some.to_vec())));
                parts.extend((!was_open).then_some(Part::SealNode(id)));
                continue;
            }
            if nodes.len() >= items_max || edges.len() + inbound.len() > items_max {
                parts.push(Part::Nodes {
                    nodes: std::mem::take(&mut nodes),
                    edges: std::mem::take(&mut edges),
                });
            }
            nodes.push(node);
            edges.extend(inbound);
        }
        let mut loose = self.loose;
        if !nodes.is_empty() && edges.len() + loose.len() <= items_max {
            edges.append(&mut loose);
        }
        if !nodes.is_empty() {
            parts.push(Part::Nodes { nodes, edges });
        }
        parts.extend(loose.chunks(items_max).map(|some| Part::Edges(some.to_vec())));
        parts
    }
}
