//! Start a child: an execution in the same partition, whose end its parent is told in the same commit.

use super::mail::{go_on_if_met, record};
use super::suspend::check_step;
use super::{Create, Decision};
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::{Cancellation, Fence};
use crate::id::ExecutionId;
use crate::limits::Limits;
use crate::payload::Payload;
use crate::rejection::{Invalid, Lost, Rejection};
use crate::reply::Reply;
use crate::state::Reason;
use crate::step::{StepKind, StepPlace};
use crate::suspension::Arrived;
use crate::workspace::{Stop, Workspace};

/// How many children of an ended execution are cancelled in one step.
const PER_STEP: usize = 200;

/// Creates an execution that the caller can wait for without holding its lease. It is cancelled if the caller ends
/// before it.
#[derive(Clone, Debug, PartialEq)]
pub struct StartChild {
    pub fence: Fence,
    pub create: Create,
    /// Under a step the child is started once, however often it is asked for.
    pub step: Option<StepPlace>,
}

impl StartChild {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        self.create.validate(limits)?;
        if self.create.id.route() != self.fence.execution.route() {
            let problem = "does not carry the route of its parent; leave the id to the SDK";
            return Err(Invalid::new("id", problem).into());
        }
        if self.create.idempotency_key.is_some() {
            let problem = "is not possible for a child; its step makes it unique";
            return Err(Invalid::new("idempotency_key", problem).into());
        }
        check_step(self.step.as_ref(), limits)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?.clone();
        current.check_fence(self.fence)?;
        let (parent, child) = (current.id, self.create.id);
        let max = ws.limits.children_max;
        if current.mailbox().is_some_and(|mailbox| mailbox.children.len() >= max) {
            return Err(Rejection::TooManyChildren { execution: parent, max }.into());
        }
        let reply = self.create.decide_as_child(ws, now, parent)?;
        if let Reply::Created { existing: true, .. } = reply {
            let own = ws.require(child)?.spec.parent == Some(parent);
            let mismatch = Rejection::IdempotencyMismatch { field: "id", existing: child };
            return if own { Ok(reply) } else { Err(mismatch.into()) };
        }
        let mut execution = (*current).clone();
        let mailbox = execution.mailbox_mut();
        mailbox.children.push(child);
        mailbox.started += 1;
        ws.emit(&execution, now, Fact::ChildStarted { child });
        if let Some(step) = &self.step {
            let result = serde_json::json!({ "child": child }).to_string();
            record(ws, &mut execution, now, step, StepKind::Child, now, Payload::json(result));
        }
        ws.put_execution(execution, now);
        Ok(reply)
    }
}

/// Tells a parent that a child has ended.
pub(super) fn tell_parent(ws: &mut Workspace, now: Ms, child: ExecutionId) -> Result<(), Stop> {
    let Some(parent) = ws.execution(child)?.and_then(|it| it.spec.parent) else { return Ok(()) };
    let Some(current) = ws.execution(parent)? else { return Ok(()) };
    let waits = current.mailbox().is_some_and(|mailbox| mailbox.children.contains(&child));
    if !waits {
        return Ok(());
    }
    let mut execution = (**current).clone();
    let over = execution.end().is_some();
    let mailbox = execution.mailbox_mut();
    mailbox.children.retain(|it| *it != child);
    if !over {
        let (name, waitpoint, source) = (None, None, None);
        mailbox.signals.push(Arrived { number: 0, name, waitpoint, source, child: Some(child) });
        go_on_if_met(ws, &mut execution, now);
    }
    ws.put_execution(execution, now);
    Ok(())
}

/// Cancels children that an ended execution has left behind, some hundred at a time. Returns whether there were any.
pub(super) fn cancel_children(ws: &mut Workspace, now: Ms, parent: ExecutionId) -> Result<bool, Stop> {
    let Some(current) = ws.execution(parent)?.cloned() else { return Ok(false) };
    let Some(mailbox) = current.mailbox() else { return Ok(false) };
    let mut children = mailbox.children.clone();
    children.truncate(PER_STEP);
    let unknown = children.iter().filter_map(|id| match ws.execution(*id) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let unknown: Vec<_> = unknown.flatten().collect();
    if !unknown.is_empty() {
        return Err(Stop::Need(unknown));
    }
    for id in &children {
        let Some(child) = ws.execution(*id)?.filter(|it| it.end().is_none()) else { continue };
        let mut child = (**child).clone();
        let by = Cancellation { actor: "system".into(), cause: "its parent has ended".into(), at: now };
        let asked = child.lease().and_then(|lease| lease.cancel.clone());
        super::lifecycle::revoke_lease(ws, &mut child, now, Lost::Cancelled, By::new(&by.actor, &by.cause));
        match asked {
            Some(asked) => super::lifecycle::finish_cancelled(ws, &mut child, now, asked.cancellation),
            None => super::lifecycle::finish_cancelled_as(ws, &mut child, now, by, Reason::ParentEnded),
        }
        ws.put_execution(child, now);
    }
    let mut execution = (*ws.require(parent)?.clone()).clone();
    execution.mailbox_mut().children.retain(|it| !children.contains(it));
    ws.put_execution(execution, now);
    Ok(true)
}
