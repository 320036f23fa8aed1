//! Add edges between nodes of a flow.

use std::sync::Arc;

use super::extend::{Adder, NewEdge, extend, validate};
use super::settle::settle;
use super::{check_revision, check_takes};
use crate::Ms;
use crate::commands::{Decision, check_text};
use crate::event::Fact;
use crate::id::FlowId;
use crate::limits::Limits;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Edges to be added; they lead to nodes that are open.
#[derive(Clone, Debug, PartialEq)]
pub struct AddEdges {
    pub flow: FlowId,
    pub expected_revision: Option<u64>,
    pub edges: Vec<NewEdge>,
    pub actor: Box<str>,
}

impl AddEdges {
    pub(in crate::commands) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("actor", &self.actor, 512)?;
        validate(self.flow, &[], &self.edges, limits)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut flow = (**ws.require_flow(self.flow)?).clone();
        check_takes(&flow)?;
        check_revision(&flow, self.expected_revision)?;
        extend(ws, now, &mut flow, &[], &self.edges, (Adder::Outside, &self.actor))?;
        flow.live.revision += 1;
        let (edges, revision) = (self.edges.len() as u64, flow.live.revision);
        let by = Arc::from(&*self.actor);
        ws.emit_flow(&flow, now, Fact::FlowGrown { nodes: 0, edges, revision, by });
        ws.put_flow(flow, now);
        settle(ws, now)?;
        Ok(Reply::Flow { flow: ws.require_flow(self.flow)?.clone(), existing: false })
    }
}
