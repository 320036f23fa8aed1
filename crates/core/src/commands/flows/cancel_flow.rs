//! Cancel a flow: it takes nothing more, and those of its members that the policy names are cancelled.

use super::settle::settle;
use super::walk::walk_step;
use crate::Ms;
use crate::commands::Decision;
use crate::event::{By, Fact};
use crate::execution::Cancellation;
use crate::flow::{CancelPolicy, Flow, FlowCancel, FlowState, ListKey};
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

    fn begin(&self, ws: &mut Workspace, now: Ms, flow: Flow) -> Result<(), Stop> {
        let by = Cancellation { actor: self.actor.clone(), cause: self.cause.clone(), at: now };
        if cancel(ws, now, flow, self.policy, by) { walk_step(ws, now, self.flow) } else { Ok(()) }
    }
}

/// Closes a flow to additions and marks it as cancelled. Returns whether its members must be visited.
pub(super) fn cancel(
    ws: &mut Workspace,
    now: Ms,
    mut flow: Flow,
    policy: CancelPolicy,
    said: Cancellation,
) -> bool {
    let by = By::new(&said.actor, &said.cause);
    let first = flow.live.cancel.take().map_or(said, |first| first.by);
    flow.live.cancel = Some(FlowCancel { policy, by: first });
    flow.live.sealed = true;
    flow.live.waits &= !flow.cancels_members();
    let visit = flow.live.open_nodes > 0 || flow.cancels_members();
    if visit {
        flow.live.visit_all(now);
    }
    ws.emit_flow(&flow, now, Fact::FlowCancelRequested { by, policy });
    ws.follow_up(Todo::Flow(flow.id));
    ws.put_flow(flow, now);
    visit
}
