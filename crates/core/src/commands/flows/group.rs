//! One group: what its counters mean for its node.

use super::child::start_again;
use crate::Ms;
use crate::commands::lifecycle::{ended, finish_cancelled_as, make_ready, revoke_lease};
use crate::event::{By, Fact};
use crate::execution::{Cancellation, Execution, State};
use crate::flow::{GroupState, Node};
use crate::id::ExecutionId;
use crate::rejection::Lost;
use crate::state::{PublicState, Reason};
use crate::workspace::{Stop, Workspace};

/// Whether a member's group has been decided, or does not matter any more.
pub(super) fn is_undecided(member: &Execution) -> bool {
    member.end().is_none() && member.node().is_some_and(|node| node.group.state == GroupState::Waiting)
}

/// Why the upstreams of this member are not wanted any more, if so.
pub(super) fn unwanted_upstreams(member: &Execution) -> Option<Reason> {
    if let Some(end) = member.end()
        && is_loser(end.reason)
    {
        return Some(end.reason);
    }
    let group = &member.node()?.group;
    match group.state {
        GroupState::Satisfied if group.join.cancels() => Some(Reason::SiblingQuorumSatisfied),
        GroupState::Impossible if group.join.cancels() => Some(Reason::SiblingQuorumImpossible),
        _ => None,
    }
}

pub(super) fn is_loser(reason: Reason) -> bool {
    matches!(reason, Reason::SiblingQuorumSatisfied | Reason::SiblingQuorumImpossible)
}

pub(super) fn edit_node(execution: &mut Execution, edit: impl FnOnce(&mut Node)) {
    if let Some(node) = execution.live.node.as_deref_mut() {
        edit(node);
    }
}

/// What moves a member next, now that its dependencies are satisfied.
pub(in crate::commands) fn admit(ws: &mut Workspace, execution: &mut Execution, now: Ms) {
    let (Some(member), Some(node)) = (&execution.spec.member, execution.node()) else { return };
    let start_at = member.start_at.unwrap_or(0);
    let hedge_until = match (&member.hedge, node.hedge_until) {
        (None, _) => 0,
        (Some(_), Some(until)) => until,
        (Some(_), None) => {
            if execution.reason() != Reason::Hedge {
                execution.live.state = State::Blocked { reason: Reason::Hedge };
                ws.emit(execution, now, Fact::Blocked { reason: Reason::Hedge });
            }
            return;
        }
    };
    let until = start_at.max(hedge_until);
    if until > now {
        let reason = if hedge_until >= start_at { Reason::Hedge } else { Reason::WaitingForDelay };
        execution.live.state = State::Delayed { until, reason };
        ws.emit(execution, now, Fact::Admitted { until: Some(until), reason: Some(reason) });
    } else if execution.child_flow().is_some() {
        let reason = Reason::ChildFlow;
        execution.live.state = State::Blocked { reason };
        ws.emit(execution, now, Fact::Blocked { reason });
    } else {
        let number = ws.emit(execution, now, Fact::Admitted { until: None, reason: None });
        make_ready(ws, execution, now, now, number);
    }
}

/// Ends a member whose dependencies can never be satisfied.
pub(super) fn skip(ws: &mut Workspace, execution: &mut Execution, now: Ms, upstream: Option<ExecutionId>) {
    let reason = Reason::DependenciesImpossible;
    let mut end = ended(ws, execution, now, PublicState::Skipped, reason);
    end.upstream = upstream;
    execution.live.state = State::Ended(end);
    ws.emit(execution, now, Fact::Skipped { reason, upstream });
}

/// Opens a skipped member again: what made it impossible is undone.
pub(super) fn reopen(ws: &mut Workspace, execution: &mut Execution, now: Ms) {
    edit_node(execution, |node| node.group.state = GroupState::Waiting);
    start_again(ws, execution, now, By::new("system", "an upstream runs again"));
}

/// Cancels a member on behalf of its flow, whether it runs or not; an ending that stands is left alone.
pub(in crate::commands) fn withdraw(
    ws: &mut Workspace,
    id: ExecutionId,
    now: Ms,
    by: &Cancellation,
    reason: Reason,
) -> Result<(), Stop> {
    let mut execution = (**ws.require(id)?).clone();
    if execution.end().is_some() {
        return Ok(());
    }
    // Whoever asked for a cancel before was told that it will happen.
    let asked = execution.lease().and_then(|lease| lease.cancel.clone());
    revoke_lease(ws, &mut execution, now, Lost::Cancelled, By::new(&by.actor, &by.cause));
    match asked {
        Some(asked) => {
            let reason = Reason::CancelledByRequest;
            finish_cancelled_as(ws, &mut execution, now, asked.cancellation, reason);
        }
        None => finish_cancelled_as(ws, &mut execution, now, by.clone(), reason),
    }
    ws.put_execution(execution, now);
    Ok(())
}

/// Cancels a member that no join needs any more.
pub(in crate::commands) fn withdraw_loser(
    ws: &mut Workspace,
    id: ExecutionId,
    now: Ms,
    reason: Reason,
) -> Result<(), Stop> {
    let by = Cancellation { actor: "system".into(), cause: reason.word().into(), at: now };
    withdraw(ws, id, now, &by, reason)
}
