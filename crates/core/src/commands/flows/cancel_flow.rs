//! Cancel a flow: it takes nothing more, and those of its members that the policy names are cancelled.

use super::settle::settle;
use super::walk::walk_step;
use crate::Ms;
use crate::commands::Decision;
use crate::event::{By, Fact};
use crate::execution::Cancellation;
use crate::flow::{CancelPolicy, Flow, FlowCancel, FlowState, ListKey, Walk};
use crate::id::FlowId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::{Stop, Todo, Workspace};

/// How many member ids one answer has.
const PAGE: usize = 1_000;

/// Cancels a flow. Said again, what was said first stands, unless the policy is stricter. Repeating it with the
/// answer's last number brings the next member ids.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelFlow {
    pub flow: FlowId,
    pub policy: CancelPolicy,
    pub members_after: u64,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl CancelFlow {
    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let flow = (**ws.require_flow(self.flow)?).clone();
        let known = flow.live.cancel.as_ref().map(|cancel| cancel.policy);
        match flow.live.end.as_ref().map(|end| end.state) {
            Some(FlowState::Cancelled) => {}
            Some(state) => return Err(Rejection::FlowEnded { flow: self.flow, state }.into()),
            None if known >= Some(self.policy) => {}
            None => self.begin(ws, now, flow)?,
        }
        settle(ws, now)?;
        let (members, more) = ws.list(ListKey::Members(self.flow), self.members_after, PAGE)?;
        let next = members.last().map(|(number, _)| *number).filter(|_| more);
        let members = members.into_iter().map(|(_, id)| id).collect();
        Ok(Reply::FlowCancelled { flow: ws.require_flow(self.flow)?.clone(), members, next })
    }

    fn begin(&self, ws: &mut Workspace, now: Ms, mut flow: Flow) -> Result<(), Stop> {
        let said = Cancellation { actor: self.actor.clone(), cause: self.cause.clone(), at: now };
        let by = flow.live.cancel.take().map_or(said, |first| first.by);
        flow.live.cancel = Some(FlowCancel { policy: self.policy, by });
        flow.live.sealed = true;
        let visit = flow.live.open_nodes > 0 || flow.cancels_members();
        flow.live.walk = visit.then_some(Walk { since: now, after: 0 });
        let by = By::new(&self.actor, &self.cause);
        ws.emit_flow(&flow, now, Fact::FlowCancelRequested { by, policy: self.policy });
        ws.put_flow(flow, now);
        ws.follow_up(Todo::Flow(self.flow));
        if visit { walk_step(ws, now, self.flow) } else { Ok(()) }
    }
}
