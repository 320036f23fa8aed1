//! Ways through the members of a flow: to cancel them, to look at them when it was sealed, to remove them.

use super::cancel_flow;
use super::child::{is_revived, revive_member};
use super::group::{is_undecided, unwanted_upstreams, withdraw};
use super::names;
use crate::Ms;
use crate::commands::start_child::cancel_children;
use crate::event::Fact;
use crate::execution::Execution;
use crate::flow::{EdgeKey, Flow, FlowCancel, ListKey, Walk};
use crate::id::{ExecutionId, FlowId};
use crate::state::Reason;
use crate::workspace::{Stop, Todo, Workspace};

/// Visits the next members of a flow that is being cancelled or was sealed. What follows from it is left to
/// whoever settles.
pub(in crate::commands) fn walk_step(ws: &mut Workspace, now: Ms, id: FlowId) -> Result<(), Stop> {
    let flow = (**ws.require_flow(id)?).clone();
    let Some(walk) = flow.live.walk else { return Ok(()) };
    let (members, more) =
        ws.list(ListKey::Members(id), walk.after, (ws.limits.cascade_edges_max / 2).max(1))?;
    know(ws, members.iter().map(|(_, id)| *id))?;
    for (_, member) in &members {
        visit(ws, now, &flow, *member)?;
    }
    let mut flow = flow;
    let last = members.last().map(|(number, _)| *number).filter(|_| more);
    // The agenda's order is by time, so a step that follows at once must not stand before what was due earlier.
    flow.live.walk = last.map(|after| Walk { since: now.max(walk.since), after, ..walk });
    ws.put_flow(flow, now);
    ws.follow_up(Todo::Flow(id));
    Ok(())
}

fn visit(ws: &mut Workspace, now: Ms, flow: &Flow, id: ExecutionId) -> Result<(), Stop> {
    let member = ws.require(id)?;
    // Nothing stays open in a flow that is closed, whatever becomes of it here.
    if member.node().is_some_and(|node| node.open) {
        ws.follow_up(Todo::Look(id));
    }
    let member = ws.require(id)?;
    if let Some(cancel) = &flow.live.cancel {
        if flow.cancels(member) {
            return withdraw(ws, id, now, &cancel.by, Reason::FlowCancelled);
        }
        if let Some(child) = member.child_flow().filter(|_| flow.cancels_members()) {
            return pass_down(ws, now, child, cancel);
        }
    }
    let revives = flow.live.walk.is_some_and(|walk| walk.revive) && !flow.cancels_members();
    if revives && is_revived(member) {
        return revive_member(ws, now, id);
    }
    if is_undecided(member) {
        ws.follow_up(Todo::Look(id));
    }
    Ok(())
}

/// A child flow that has begun is cancelled in the same way as the flow around it.
fn pass_down(ws: &mut Workspace, now: Ms, child: FlowId, cancel: &FlowCancel) -> Result<(), Stop> {
    let flow = (**ws.require_flow(child)?).clone();
    let known = flow.live.cancel.as_ref().map(|cancel| cancel.policy);
    if flow.live.end.is_none() && known < Some(cancel.policy) {
        cancel_flow::cancel(ws, now, flow, cancel.policy, cancel.by.clone());
    }
    Ok(())
}

/// Asks for all of these at once that are not in memory.
fn know(ws: &Workspace, ids: impl Iterator<Item = ExecutionId>) -> Result<(), Stop> {
    let asks = ids.filter_map(|id| match ws.execution(id) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let asks: Vec<_> = asks.flatten().collect();
    if asks.is_empty() { Ok(()) } else { Err(Stop::Need(asks)) }
}

/// Why a member that is ready must not start any more: its flow is being cancelled, or a join that did not need
/// it was decided and the agenda has not come to it yet.
pub(in crate::commands) fn withdrawn(ws: &Workspace, member: &Execution) -> Result<Option<Reason>, Stop> {
    let Some(id) = member.flow() else { return Ok(None) };
    let flow = ws.require_flow(id)?;
    if flow.cancels(member) {
        return Ok(Some(Reason::FlowCancelled));
    }
    if flow.live.passing == 0 || member.node().is_none_or(|node| node.dependents == 0) {
        return Ok(None);
    }
    let mut reason = member.node().and_then(|node| node.unwanted);
    let (dependents, _) = ws.list(ListKey::Downstream(member.id), 0, usize::MAX)?;
    for (number, dependent) in dependents {
        let dependent = ws.require(dependent)?;
        if is_undecided(dependent) {
            return Ok(None);
        }
        let passing = dependent.node().and_then(|node| node.passing);
        if passing.and_then(|passing| passing.up).is_some_and(|after| after < number) {
            reason = reason.or_else(|| unwanted_upstreams(dependent));
        }
    }
    Ok(reason)
}

/// The edges that lead out of these members. Asks for all of them at once that are not in memory: what is removed
/// without having been read stays stored.
fn edges_from(ws: &Workspace, members: &[(u64, ExecutionId)]) -> Result<Vec<EdgeKey>, Stop> {
    let (mut keys, mut asks) = (Vec::new(), Vec::new());
    for (_, upstream) in members {
        match ws.list(ListKey::Downstream(*upstream), 0, usize::MAX) {
            Ok((edges, _)) => {
                let upstream = *upstream;
                keys.extend(
                    edges.iter().map(|(_, downstream)| EdgeKey { upstream, downstream: *downstream }),
                );
            }
            Err(Stop::Need(more)) => asks.extend(more),
            Err(stop) => return Err(stop),
        }
    }
    asks.extend(
        keys.iter()
            .filter_map(|key| match ws.edge(*key) {
                Err(Stop::Need(asks)) => Some(asks),
                _ => None,
            })
            .flatten(),
    );
    if asks.is_empty() { Ok(keys) } else { Err(Stop::Need(asks)) }
}

/// Removes members of an ended flow that is old enough, up to `limit`, and the flow with its last one. Returns
/// how many went.
pub(in crate::commands) fn remove_members(
    ws: &mut Workspace,
    now: Ms,
    id: FlowId,
    limit: usize,
) -> Result<usize, Stop> {
    let Some(flow) = ws.flow(id)?.cloned() else { return Ok(0) };
    if flow.live.end.as_ref().and_then(|end| end.remove_at).is_none_or(|at| at > now) {
        return Ok(0);
    }
    remove_flow(ws, now, &flow, limit)
}

fn know_streams(ws: &Workspace, ids: impl Iterator<Item = ExecutionId>) -> Result<(), Stop> {
    let missing = ids.filter_map(|id| match ws.know_stream(id) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let missing: Vec<_> = missing.flatten().collect();
    if missing.is_empty() { Ok(()) } else { Err(Stop::Need(missing)) }
}

/// Removes members of a flow, up to about `limit`, and the flow with its last one. A child flow goes before its
/// node.
fn remove_flow(ws: &mut Workspace, now: Ms, flow: &Flow, limit: usize) -> Result<usize, Stop> {
    let id = flow.id;
    let (members, more) = ws.list(ListKey::Members(id), 0, limit)?;
    know(ws, members.iter().map(|(_, id)| *id))?;
    know_streams(ws, members.iter().map(|(_, id)| *id))?;
    // All that is missing is asked for at once.
    edges_from(ws, &members)?;
    names::release(ws, flow, &members)?;
    let mut removed = 0;
    for (number, member) in &members {
        let child = ws.execution(*member)?.and_then(|it| it.child_flow());
        if let Some(child) = child
            && let Some(child) = ws.flow(child)?.cloned()
        {
            let room = limit.saturating_sub(removed).max(1);
            removed += remove_flow(ws, now, &child, room)?;
            if removed >= limit || ws.flow(child.id)?.is_some() {
                return Ok(removed);
            }
        }
        for key in edges_from(ws, &[(*number, *member)])? {
            ws.purge_edge(key);
        }
        // What it started and has not been cancelled yet must not stay behind without it.
        while cancel_children(ws, now, *member)? {}
        if let Some(execution) = ws.execution(*member)?.cloned() {
            ws.emit(&execution, now, Fact::Removed { by: None });
            ws.purge_execution(*member);
        }
        removed += 1;
    }
    if !more {
        ws.emit_flow(flow, now, Fact::FlowRemoved);
        ws.purge_flow(id);
    }
    Ok(removed + 1)
}
