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
        if self.create.idempotency_key.is_some() {
            let problem = "is not possible for a child; its step makes it unique";
            return Err(Invalid::new("idempotency_key", problem).into());
        }
        self.create.validate(limits)?;
        if self.create.id.route() != self.fence.execution.route() {
            let problem = "does not carry the route of its parent; leave the id to the SDK";
            return Err(Invalid::new("id", problem).into());
        }
        check_step(self.step.as_ref(), limits)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?.clone();
        current.check_fence(self.fence)?;
        let (parent, child) = (current.id, self.create.id);
        let max = ws.limits.children_max;
        let is_full = current.mailbox().is_some_and(|mailbox| mailbox.children.len() >= max);
        // The child that has filled the limit is found when it is asked for again.
        if is_full && ws.execution(child)?.is_none() {
            return Err(Rejection::TooManyChildren { execution: parent, max }.into());
        }
        let reply = self.create.decide_as_child(ws, now, parent)?;
        if let Reply::Created { existing: true, .. } = reply {
            let own = ws.require(child)?.spec.parent == Some(parent);
            let mismatch = Rejection::IdempotencyMismatch { field: "id".into(), existing: child };
            return if own { Ok(reply) } else { Err(mismatch.into()) };
        }
        let mut execution = (*current).clone();
        execution.mailbox_mut().children.push(child);
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
        mailbox.signals.push(Arrived::child(child));
        go_on_if_met(ws, &mut execution, now);
    }
    ws.put_execution(execution, now);
    Ok(())
}

/// Cancels children that an ended execution has left behind, some hundred at a time. Returns whether there were any.
pub(super) fn cancel_children(ws: &mut Workspace, now: Ms, parent: ExecutionId) -> Result<bool, Stop> {
    let Some(current) = ws.execution(parent)?.cloned() else { return Ok(false) };
    let Some(mailbox) = current.mailbox() else { return Ok(false) };
    if mailbox.children.is_empty() {
        return Ok(false);
    }
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

#[cfg(test)]
mod tests {
    use super::super::Suspend;
    use super::super::testing::*;
    use super::*;
    use crate::suspension::Condition;

    fn waits(bench: &Bench, fence: Fence) -> Suspend {
        let child = bench.get(fence.execution).mailbox().unwrap().children[0];
        Suspend { reason: Reason::WaitingForChild, ..Suspend::new(fence, Condition::Child(child)) }
    }

    #[test]
    fn the_end_of_a_child_wakes_its_parent_in_the_same_commit() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let parent = bench.active();
            let start = start_child(parent);
            let child = start.create.id;
            bench.ok(start.clone());
            assert_eq!(bench.ok(start), Reply::Created { execution: child, existing: true });
            bench.ok(waits(&bench, parent));
            assert_eq!(bench.state(parent.execution), ("suspended", "waiting_for_child"));
            let fence = bench.claim();
            assert_eq!(fence.execution, child);
            let commits = bench.store.log.len();
            bench.ok(complete(fence));
            assert_eq!(bench.store.log.len(), commits + 1);
            assert_eq!(bench.state(parent.execution).0, "waiting");
            let mailbox = bench.get(parent.execution).mailbox().unwrap();
            assert_eq!(mailbox.resumption.as_ref().unwrap().children, [child]);
            let again = bench.claim();
            assert_eq!((again.execution, again.attempt), (parent.execution, 1));
        }
    }

    #[test]
    fn a_child_that_ended_before_counts_whenever_it_is_waited_for() {
        let mut bench = Bench::new();
        let parent = bench.active();
        bench.ok(start_child(parent));
        let wait = waits(&bench, parent);
        let fence = bench.claim();
        bench.ok(fail_fatally(fence));
        bench.ok(wait.clone());
        let parent = bench.claim();
        bench.ok(Suspend { fence: parent, ..wait });
        assert_eq!(bench.claim().execution, parent.execution, "also a second time");
    }

    #[test]
    fn children_are_cancelled_when_their_parent_ends_before_them() {
        let mut bench = Bench::new();
        let parent = bench.active();
        let start = start_child(parent);
        bench.ok(start.clone());
        let running = bench.claim();
        bench.ok(start_child(running));
        bench.ok(complete(parent));
        assert_eq!(bench.state(running.execution).0, "active");
        bench.pass(0);
        assert_eq!(bench.state(running.execution), ("cancelled", "parent_ended"));
        let grandchild = start_child(running).create.id;
        assert_eq!(bench.state(grandchild), ("cancelled", "parent_ended"));
        assert_eq!(bench.refused(complete(running)).code(), "lease_lost");
    }

    #[test]
    fn removing_a_parent_leaves_no_child_behind() {
        let mut bench = Bench::new();
        let parent = bench.active();
        let start = start_child(parent);
        bench.ok(start.clone());
        bench.ok(complete(parent));
        bench.ok(remove(parent.execution));
        assert_eq!(bench.state(start.create.id).0, "cancelled");
    }

    #[test]
    fn an_id_that_is_not_its_child_is_refused() {
        let mut bench = Bench::new();
        let parent = bench.active();
        let mut start = start_child(parent);
        bench.ok(start.create.clone());
        assert_eq!(bench.refused(start.clone()).code(), "idempotency_mismatch");
        start.create.id = ExecutionId::from_parts(START, crate::id::Route(5), 9);
        let refused = start.validate(&Limits::default()).unwrap_err().to_string();
        assert!(refused.starts_with("id does not carry the route of its parent"), "{refused}");
    }

    #[test]
    fn there_is_a_limit_to_children_at_once() {
        let mut bench =
            Bench::of(crate::id::PartitionId(0), 1, Limits { children_max: 1, ..Limits::default() });
        let parent = bench.active();
        let last = start_child(parent);
        bench.ok(last.clone());
        let other = StartChild { create: bench.submission(), ..start_child(parent) };
        assert_eq!(bench.refused(other).code(), "too_many_children");
        let found = Reply::Created { execution: last.create.id, existing: true };
        assert_eq!(bench.ok(last), found, "also when its answer was lost");
    }
}
