//! Set the policy of an edge group, before it has its first edge.

use super::{check_revision, check_takes, member};
use crate::Ms;
use crate::commands::{Decision, check_by};
use crate::event::{By, Fact};
use crate::flow::Join;
use crate::id::{ExecutionId, FlowId};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Says how many inbound edges of a node must be satisfied. Saying the same again is fine.
#[derive(Clone, Debug, PartialEq)]
pub struct SetGroupPolicy {
    pub flow: FlowId,
    pub node: ExecutionId,
    pub join: Join,
    pub expected_revision: Option<u64>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl SetGroupPolicy {
    pub(in crate::commands) fn validate(&self) -> Result<(), Rejection> {
        if let Join::Quorum { k: 0, .. } = self.join {
            return Err(Invalid::new("join.k", "is 0; allowed is 1 or more").into());
        }
        Ok(check_by(&self.actor, &self.cause)?)
    }

    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut flow = (**ws.require_flow(self.flow)?).clone();
        let mut execution = (**member(ws, &flow, "execution", self.node)?).clone();
        let Some(node) = execution.live.node.as_deref_mut() else {
            return Err(Rejection::OtherFlow { execution: self.node, flow: self.flow }.into());
        };
        if node.group.join == self.join {
            return Ok(Reply::PolicySet { already: true });
        }
        if node.group.total > 0 {
            return Err(Rejection::PolicyFixed { node: self.node }.into());
        }
        check_takes(&flow)?;
        check_revision(&flow, self.expected_revision)?;
        if !node.open {
            return Err(Rejection::GroupClosed { node: self.node }.into());
        }
        let was_short = node.group.is_short();
        node.group.join = self.join;
        let is_short = node.group.is_short();
        flow.live.short_groups = flow.live.short_groups + u64::from(is_short) - u64::from(was_short);
        flow.live.revision += 1;
        let (by, revision) = (By::new(&self.actor, &self.cause), flow.live.revision);
        ws.emit(&execution, now, Fact::PolicySet { by, join: self.join, revision });
        ws.put_flow(flow, now);
        ws.put_execution(execution, now);
        Ok(Reply::PolicySet { already: false })
    }
}
