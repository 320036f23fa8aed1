//! Expand: a worker completes its work and adds what comes after it.

use std::sync::Arc;

use super::extend::{Adder, NewEdge, NewNode, extend, validate};
use super::{check_lives, names};
use crate::Ms;
use crate::commands::{Complete, Decision};
use crate::event::Fact;
use crate::execution::{Fence, How};
use crate::id::FlowId;
use crate::limits::Limits;
use crate::payload::Payload;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::Workspace;

/// The work of a lease is done, and these nodes and edges come after it, also in a sealed flow. Edges lead from
/// the completed node or new nodes to new nodes, and from new nodes into what waits for the completed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Expand {
    pub fence: Fence,
    pub result: Option<Payload>,
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
}

impl Expand {
    fn complete(&self) -> Complete {
        Complete { fence: self.fence, result: self.result.clone() }
    }

    pub(in crate::commands) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        self.complete().validate(limits)?;
        if self.nodes.iter().any(|node| node.open) {
            return Err(Invalid::new("nodes.open", "is set; a member adds closed nodes only").into());
        }
        // Members carry the route of their flow.
        let route = FlowId(self.fence.execution.0);
        validate(route, &self.nodes, &self.edges, limits)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?.clone();
        if let Some(how @ How::Completed) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let by = current.check_fence(self.fence)?.worker.clone();
        let Some(id) = current.flow() else {
            let problem = format!("is {}, which is in no flow; complete it instead", current.id);
            return Err(Invalid::new("execution", problem).into());
        };
        let mut flow = (**ws.require_flow(id)?).clone();
        check_lives(&flow)?;
        names::claim(ws, &mut flow, &self.nodes)?;
        extend(ws, now, &mut flow, &self.nodes, &self.edges, (Adder::Member(current.id), &by))?;
        flow.live.revision += 1;
        let (nodes, edges) = (self.nodes.len() as u64, self.edges.len() as u64);
        let (revision, by) = (flow.live.revision, Arc::from(&*by));
        ws.emit_flow(&flow, now, Fact::FlowGrown { nodes, edges, revision, by });
        ws.put_flow(flow, now);
        self.complete().decide(ws, now)
    }
}
