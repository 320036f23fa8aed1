//! Create a flow with its first nodes and edges, all at once.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::child::NewChild;
use super::extend::{Adder, NewEdge, NewNode, extend, validate};
use super::names;
use super::settle::settle;
use crate::Ms;
use crate::commands::{Decision, check_text};
use crate::event::Fact;
use crate::execution::ContentDigest;
use crate::flow::{Flow, FlowSpec, ListKey};
use crate::id::FlowId;
use crate::limits::Limits;
use crate::name::{Kind, Namespace};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::tags::Tags;
use crate::workspace::{Stop, Todo, Workspace};

/// A flow to be made, once. Sealed, it takes no more nodes from outside; otherwise it grows until it is.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFlow {
    /// Made by the caller, so that a lost answer can be asked for again.
    pub id: FlowId,
    /// The id was made for this very call, so nothing needs to be read to know that it is free.
    pub fresh: bool,
    pub namespace: Namespace,
    pub kind: Kind,
    pub tags: Tags,
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
    pub sealed: bool,
    pub actor: Box<str>,
}

impl CreateFlow {
    pub(in crate::commands) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("actor", &self.actor, 512)?;
        Tags::default().edited(self.tags.iter(), [], limits)?;
        if self.sealed && self.nodes.iter().any(|node| node.open) {
            let problem = "has open nodes in a sealed flow; leave out one of the two";
            return Err(Invalid::new("nodes", problem).into());
        }
        validate(self.id, &self.nodes, &self.edges, limits)
    }

    /// What makes two submissions the same.
    fn digest(&self) -> ContentDigest {
        let mut hash = Sha256::new();
        let mut part = |text: String| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        part(format!("{:?} {:?} {:?} {}", self.namespace, self.kind, self.tags, self.sealed));
        describe(&self.nodes, &self.edges, &mut part);
        let mut first = [0u8; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        ContentDigest(u64::from_be_bytes(first) >> 1)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let digest = self.digest();
        let known = if self.fresh { ws.known_flow(self.id) } else { ws.flow(self.id)? };
        if let Some(flow) = known {
            if flow.spec.digest == digest {
                return Ok(Reply::Flow { flow: flow.clone(), existing: true });
            }
            return Err(Rejection::FlowMismatch { flow: self.id }.into());
        }
        let spec = FlowSpec {
            namespace: self.namespace.clone(),
            kind: self.kind.clone(),
            created_at: now,
            created_by: self.actor.clone(),
            digest,
            parent: None,
            depth: 0,
        };
        let flow = Flow::new(self.id, spec, self.tags.clone(), self.sealed);
        found(ws, now, flow, &self.nodes, &self.edges)?;
        settle(ws, now)?;
        Ok(Reply::Flow { flow: ws.require_flow(self.id)?.clone(), existing: false })
    }
}

/// Everything that tells one graph from another.
fn describe(nodes: &[NewNode], edges: &[NewEdge], part: &mut dyn FnMut(String)) {
    for node in nodes {
        let NewNode { create, name, join, open, hedge, child } = node;
        part(format!("{} {} {name:?} {join:?} {open} {hedge:?}", create.id, create.digest().0));
        if let Some(NewChild { id, kind, tags, sealed, nodes, edges }) = child.as_deref() {
            part(format!("{id} {kind:?} {tags:?} {sealed} {} {}", nodes.len(), edges.len()));
            describe(nodes, edges, part);
        }
    }
    edges.iter().for_each(|edge| part(format!("{edge:?}")));
}

/// Stores a new flow with its first nodes and edges.
pub(super) fn found(
    ws: &mut Workspace,
    now: Ms,
    mut flow: Flow,
    nodes: &[NewNode],
    edges: &[NewEdge],
) -> Result<(), Stop> {
    let by: Arc<str> = Arc::from(&*flow.spec.created_by);
    ws.begin_list(ListKey::Members(flow.id));
    names::found(ws, &mut flow, nodes);
    ws.put_flow(flow.clone(), now);
    extend(ws, now, &mut flow, nodes, edges, (Adder::Outside, &by))?;
    let (kind, sealed) = (flow.spec.kind.clone(), flow.live.sealed);
    let (nodes, edges) = (flow.live.nodes, flow.live.edges);
    ws.emit_flow(&flow, now, Fact::FlowCreated { kind, nodes, edges, sealed, by });
    ws.follow_up(Todo::Flow(flow.id));
    ws.put_flow(flow, now);
    Ok(())
}
