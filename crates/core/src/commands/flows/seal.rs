//! Seal: no more nodes and edges come from outside, for one node or for a whole flow.

use super::settle::settle;
use super::walk::walk_step;
use super::{check_lives, check_revision, member};
use crate::Ms;
use crate::commands::Decision;
use crate::event::{By, Fact};
use crate::flow::Flow;
use crate::id::{ExecutionId, FlowId};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::{Stop, Todo, Workspace};

/// Ends additions from outside to a flow, or inbound edges to one of its nodes. Repeating it is harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct Seal {
    pub flow: FlowId,
    /// Only this node.
    pub node: Option<ExecutionId>,
    pub expected_revision: Option<u64>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Seal {
    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let flow = (**ws.require_flow(self.flow)?).clone();
        match self.node {
            Some(node) => self.seal_node(ws, now, flow, node)?,
            None => self.seal_flow(ws, now, flow)?,
        }
        settle(ws, now)?;
        Ok(Reply::Flow { flow: ws.require_flow(self.flow)?.clone(), existing: false })
    }

    fn seal_flow(&self, ws: &mut Workspace, now: Ms, mut flow: Flow) -> Result<(), Stop> {
        if flow.live.sealed {
            return Ok(());
        }
        check_lives(&flow)?;
        check_revision(&flow, self.expected_revision)?;
        if flow.live.short_groups > 0 {
            let count = flow.live.short_groups;
            let problem = format!(
                "has {count} open nodes whose policy asks for more inbound edges than they have; add edges first"
            );
            return Err(Invalid::new("flow", problem).into());
        }
        flow.live.sealed = true;
        flow.live.revision += 1;
        let (by, revision) = (By::new(&self.actor, &self.cause), flow.live.revision);
        ws.emit_flow(&flow, now, Fact::FlowSealed { by, revision });
        ws.follow_up(Todo::Flow(flow.id));
        let open_nodes = flow.live.open_nodes > 0;
        if open_nodes {
            flow.live.visit_all(now);
        }
        ws.put_flow(flow, now);
        if open_nodes { walk_step(ws, now, self.flow) } else { Ok(()) }
    }

    fn seal_node(&self, ws: &mut Workspace, now: Ms, mut flow: Flow, id: ExecutionId) -> Result<(), Stop> {
        let mut execution = (**member(ws, &flow, "execution", id)?).clone();
        let Some(node) = execution.live.node.as_deref_mut().filter(|node| node.open) else { return Ok(()) };
        check_lives(&flow)?;
        check_revision(&flow, self.expected_revision)?;
        if node.group.is_short() {
            let (k, total) = (node.group.join.need(node.group.total), node.group.total);
            return Err(Rejection::QuorumImpossible { node: id, k, total }.into());
        }
        node.open = false;
        flow.live.open_nodes -= 1;
        flow.live.revision += 1;
        let (by, revision) = (By::new(&self.actor, &self.cause), flow.live.revision);
        ws.emit(&execution, now, Fact::NodeSealed { by, revision });
        ws.put_flow(flow, now);
        ws.put_execution(execution, now);
        ws.follow_up(Todo::Look(id));
        Ok(())
    }
}
