//! Create a flow with its first nodes and edges, all at once.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::extend::{Adder, NewEdge, NewNode, extend, validate};
use super::settle::settle;
use crate::Ms;
use crate::commands::{Decision, check_text};
use crate::event::Fact;
use crate::execution::ContentDigest;
use crate::flow::{Flow, FlowLive, FlowSpec, ListKey, Summary};
use crate::id::FlowId;
use crate::limits::Limits;
use crate::name::{Kind, Namespace};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::tags::Tags;
use crate::workspace::{Todo, Workspace};

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
        for node in &self.nodes {
            let digest = node.create.digest().0;
            let NewNode { create, name, join, open, hedge } = node;
            part(format!("{} {digest} {name:?} {join:?} {open} {hedge:?}", create.id));
        }
        self.edges.iter().for_each(|edge| part(format!("{edge:?}")));
        let mut first = [0u8; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        ContentDigest(u64::from_be_bytes(first) >> 1)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let digest = self.digest();
        if !self.fresh
            && let Some(flow) = ws.flow(self.id)?
        {
            if flow.spec.digest == digest {
                return Ok(Reply::Flow { flow: flow.clone(), existing: true });
            }
            return Err(Rejection::FlowMismatch { flow: self.id }.into());
        }
        let mut flow = self.build(now, digest);
        ws.begin_list(ListKey::Members(self.id));
        ws.put_flow(flow.clone(), now);
        extend(ws, now, &mut flow, &self.nodes, &self.edges, (Adder::Outside, &self.actor))?;
        let (nodes, edges) = (flow.live.nodes, flow.live.edges);
        let (kind, sealed, by) = (self.kind.clone(), self.sealed, Arc::from(&*self.actor));
        ws.emit_flow(&flow, now, Fact::FlowCreated { kind, nodes, edges, sealed, by });
        ws.put_flow(flow, now);
        ws.follow_up(Todo::Flow(self.id));
        settle(ws, now)?;
        Ok(Reply::Flow { flow: ws.require_flow(self.id)?.clone(), existing: false })
    }

    fn build(&self, now: Ms, digest: ContentDigest) -> Flow {
        let spec = FlowSpec {
            namespace: self.namespace.clone(),
            kind: self.kind.clone(),
            created_at: now,
            created_by: self.actor.clone(),
            digest,
        };
        let live = FlowLive {
            tags: self.tags.clone(),
            revision: 1,
            sealed: self.sealed,
            nodes: 0,
            edges: 0,
            summary: Summary::default(),
            held: 0,
            open_nodes: 0,
            short_groups: 0,
            passing: 0,
            failures: 0,
            cancel: None,
            walk: None,
            keep_until: 0,
            end: None,
            changed_at: now,
        };
        Flow { id: self.id, spec: Arc::new(spec), live }
    }
}
