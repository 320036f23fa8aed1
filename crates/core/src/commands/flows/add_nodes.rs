//! Add nodes to a flow, with their edges.

use std::sync::Arc;

use super::extend::{Adder, NewEdge, NewNode, extend, validate};
use super::settle::settle;
use super::{check_revision, check_takes, names};
use crate::Ms;
use crate::commands::{Decision, check_text};
use crate::event::Fact;
use crate::id::FlowId;
use crate::limits::Limits;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

/// Nodes to be added, with the edges that lead to them. A node that is not open takes no other edges later.
#[derive(Clone, Debug, PartialEq)]
pub struct AddNodes {
    pub flow: FlowId,
    pub expected_revision: Option<u64>,
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
    pub actor: Box<str>,
}

impl AddNodes {
    pub(in crate::commands) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_text("actor", &self.actor, 512)?;
        validate(self.flow, &self.nodes, &self.edges, limits)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut flow = (**ws.require_flow(self.flow)?).clone();
        if self.is_repeated(ws)? {
            return Ok(Reply::Flow { flow: Arc::new(flow), existing: true });
        }
        check_takes(&flow)?;
        check_revision(&flow, self.expected_revision)?;
        names::claim(ws, &mut flow, &self.nodes)?;
        extend(ws, now, &mut flow, &self.nodes, &self.edges, (Adder::Outside, &self.actor))?;
        flow.live.revision += 1;
        let (nodes, edges) = (self.nodes.len() as u64, self.edges.len() as u64);
        let (revision, by) = (flow.live.revision, Arc::from(&*self.actor));
        ws.emit_flow(&flow, now, Fact::FlowGrown { nodes, edges, revision, by });
        ws.put_flow(flow, now);
        settle(ws, now)?;
        Ok(Reply::Flow { flow: ws.require_flow(self.flow)?.clone(), existing: false })
    }

    /// Whether all of these nodes were added before, as they are here: an answer was lost.
    fn is_repeated(&self, ws: &Workspace) -> Result<bool, Stop> {
        for node in &self.nodes {
            if node.create.fresh {
                return Ok(false);
            }
            let known = ws.execution(node.create.id)?;
            let same = known
                .is_some_and(|it| it.flow() == Some(self.flow) && it.spec.digest == node.create.digest());
            if !same {
                return Ok(false);
            }
        }
        Ok(!self.nodes.is_empty())
    }
}
