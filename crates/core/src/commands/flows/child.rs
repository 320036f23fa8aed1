//! A node that is a flow of its own: it waits for that flow instead of a worker, and ends as it ends.

use std::sync::Arc;

use super::cancel_flow;
use super::create_flow::found;
use super::extend::{NewEdge, NewNode, validate};
use crate::Ms;
use crate::attempt::TaskError;
use crate::commands::create::Create;
use crate::commands::lifecycle::{ended, finish_cancelled, finish_failed};
use crate::event::{By, Fact};
use crate::execution::{Cancellation, Execution, Series, State};
use crate::flow::{CancelPolicy, Flow, FlowSpec, FlowState, GroupState, Walk};
use crate::id::{ExecutionId, FlowId};
use crate::limits::Limits;
use crate::name::Kind;
use crate::rejection::{Invalid, Rejection};
use crate::state::{PublicState, Reason};
use crate::tags::Tags;
use crate::workspace::{Stop, Todo, Workspace};

/// How many flows may be around a member.
const DEPTH_MAX: u8 = 8;

/// The flow that a node stands for. Nothing of it starts before the node's turn has come.
#[derive(Clone, Debug, PartialEq)]
pub struct NewChild {
    /// Carries the route of the flow around it.
    pub id: FlowId,
    pub kind: Kind,
    pub tags: Tags,
    pub nodes: Vec<NewNode>,
    pub edges: Vec<NewEdge>,
    pub sealed: bool,
}

/// How many nodes and edges there are, also in child flows.
pub(super) fn size(
    nodes: &[NewNode],
    edges: &[NewEdge],
    limits: &Limits,
) -> Result<(usize, usize), Rejection> {
    let mut sizes = (nodes.len(), edges.len());
    let mut inner: Vec<(&NewChild, u8)> =
        nodes.iter().filter_map(|it| Some((it.child.as_deref()?, 1))).collect();
    // Only as many are looked at as are allowed, however much was sent.
    while let Some((child, depth)) = inner.pop() {
        check(depth)?;
        sizes = (sizes.0 + child.nodes.len(), sizes.1 + child.edges.len());
        if sizes.0 > limits.flow_items_max {
            break;
        }
        inner.extend(child.nodes.iter().filter_map(|it| Some((it.child.as_deref()?, depth + 1))));
    }
    Ok(sizes)
}

fn check(depth: u8) -> Result<(), Rejection> {
    if depth > DEPTH_MAX {
        let problem = format!("is {depth} flows deep; allowed are at most {DEPTH_MAX}");
        return Err(Invalid::new("nodes.child", problem).into());
    }
    Ok(())
}

/// A child flow may be added to a child flow, as long as there are not too many around it.
pub(super) fn check_depth(flow: &Flow, node: &NewNode) -> Result<(), Rejection> {
    if node.child.is_some() { check(flow.spec.depth + 1) } else { Ok(()) }
}

impl NewChild {
    pub(super) fn validate(&self, flow: FlowId, limits: &Limits) -> Result<(), Rejection> {
        if self.id.route() != flow.route() {
            let problem = format!("is {}, which does not carry the route of its flow", self.id);
            return Err(Invalid::new("nodes.child.id", problem).into());
        }
        if self.sealed && self.nodes.iter().any(|node| node.open) {
            let problem = "has open nodes in a sealed flow; leave out one of the two";
            return Err(Invalid::new("nodes.child.nodes", problem).into());
        }
        Tags::default().edited(self.tags.iter(), [], limits)?;
        validate(self.id, &self.nodes, &self.edges, limits)
    }

    /// Stores the child flow of a node that has just been added.
    pub(super) fn found(
        &self,
        ws: &mut Workspace,
        now: Ms,
        around: &Flow,
        node: &Create,
    ) -> Result<(), Stop> {
        let known = if node.fresh { ws.known_flow(self.id) } else { ws.flow(self.id)? };
        if known.is_some() {
            return Err(Rejection::FlowMismatch { flow: self.id }.into());
        }
        let spec = FlowSpec {
            namespace: around.spec.namespace.clone(),
            kind: self.kind.clone(),
            created_at: now,
            created_by: around.spec.created_by.clone(),
            digest: node.digest(),
            parent: Some(node.id),
            depth: around.spec.depth + 1,
        };
        let mut flow = Flow::new(self.id, spec, self.tags.clone(), self.sealed);
        flow.live.waits = true;
        found(ws, now, flow, &self.nodes, &self.edges)
    }
}

/// What becomes of a child flow when its node has moved. Returns whether its members must be visited.
pub(super) fn follow(
    ws: &mut Workspace,
    now: Ms,
    child: FlowId,
    before: Option<&Execution>,
    node: &Execution,
) -> Result<bool, Stop> {
    let flow = (**ws.require_flow(child)?).clone();
    let was_over = before.is_some_and(|it| it.end().is_some());
    if let Some(end) = node.end() {
        let policy = flow.live.cancel.as_ref().map(|cancel| cancel.policy);
        if flow.live.end.is_some() || policy == Some(CancelPolicy::CancelAll) {
            return Ok(false);
        }
        let cause = format!("its node ended {}", end.state);
        let by = Cancellation { actor: "system".into(), cause: cause.into(), at: now };
        let by = end.cancelled.clone().unwrap_or(by);
        cancel_flow::cancel(ws, now, flow, CancelPolicy::CancelAll, by);
        return Ok(true);
    }
    let begins = node.reason() == Reason::ChildFlow;
    if was_over && (flow.live.end.is_some() || flow.live.cancel.is_some()) {
        revive(ws, now, flow, !begins);
        return Ok(true);
    }
    if begins && flow.live.waits {
        begin(ws, now, flow);
        return Ok(true);
    }
    Ok(false)
}

/// The turn of its node has come.
fn begin(ws: &mut Workspace, now: Ms, mut flow: Flow) {
    flow.live.waits = false;
    flow.live.visit_all(now);
    ws.follow_up(Todo::Flow(flow.id));
    ws.put_flow(flow, now);
}

/// Its node runs again, and with it every member that did not complete.
fn revive(ws: &mut Workspace, now: Ms, mut flow: Flow, waits: bool) {
    let cancelled = flow.live.cancel.take().is_some();
    flow.live.waits = waits;
    flow.live.walk = Some(Walk { since: now, after: 0, revive: true });
    if flow.live.end.take().is_some() || cancelled {
        ws.emit_flow(&flow, now, Fact::FlowReopened);
    }
    ws.follow_up(Todo::Flow(flow.id));
    ws.put_flow(flow, now);
}

/// A member of a child flow that runs again as a whole.
pub(super) fn revive_member(ws: &mut Workspace, now: Ms, id: ExecutionId) -> Result<(), Stop> {
    let mut execution = (**ws.require(id)?).clone();
    let by = By::new("system", "its child flow runs again");
    start_again(ws, &mut execution, now, by);
    ws.put_execution(execution, now);
    ws.follow_up(Todo::Look(id));
    Ok(())
}

/// Whether a member of a child flow that runs again as a whole runs again. One that was skipped or not needed is
/// looked at by its group.
pub(super) fn is_revived(member: &Execution) -> bool {
    use PublicState::{Cancelled, Expired, Failed};
    let ended = |end: &crate::execution::End| {
        matches!(end.state, Failed | Expired | Cancelled) && !super::group::is_loser(end.reason)
    };
    member.end().is_some_and(ended)
}

/// Opens a new series of an ended member: it waits for its dependencies, its child flow or a worker.
pub(in crate::commands) fn start_again(ws: &mut Workspace, execution: &mut Execution, now: Ms, by: By) {
    let series = execution.live.series.number + 1;
    execution.live.series = Series { number: series, spent: 0, losses: 0, since: now };
    execution.live.deadline_at = execution.spec.deadline_ms.map(|ms| now.saturating_add(ms));
    // A member that ended before its dependencies were satisfied waits for them again.
    let waits = execution.node().is_some_and(|node| node.group.state != GroupState::Satisfied);
    let child = execution.child_flow().map(|_| Reason::ChildFlow);
    let blocked = if waits { Some(Reason::WaitingForDependencies) } else { child };
    let number = ws.emit(execution, now, Fact::Replayed { by, series, blocked });
    match blocked {
        Some(reason) => execution.live.state = State::Blocked { reason },
        None => crate::commands::lifecycle::make_ready(ws, execution, now, now, number),
    }
}

/// Ends the node of a child flow that has ended, or opens it again with it.
pub(super) fn tell_node(ws: &mut Workspace, now: Ms, flow: &Flow) -> Result<(), Stop> {
    let Some(id) = flow.spec.parent else { return Ok(()) };
    let mut node = (**ws.require(id)?).clone();
    match (&flow.live.end, node.end().is_some()) {
        (Some(end), false) => end_node(ws, now, &mut node, flow, end.state),
        (None, true) if flow.live.cancel.is_none() && !flow.live.waits => {
            start_again(ws, &mut node, now, By::new("system", "a member of its child flow runs again"));
        }
        _ => return Ok(()),
    }
    ws.put_execution(node, now);
    Ok(())
}

fn end_node(ws: &mut Workspace, now: Ms, node: &mut Execution, flow: &Flow, state: FlowState) {
    match state {
        FlowState::Completed => {
            let end = ended(ws, node, now, PublicState::Completed, Reason::Succeeded);
            node.live.state = State::Ended(end);
            let (attempt, spent) = (node.attempt_number(), node.live.series.spent);
            ws.emit(node, now, Fact::Completed { attempt, spent });
        }
        FlowState::Cancelled => {
            let system = || Cancellation { actor: "system".into(), cause: "".into(), at: now };
            let by = flow.live.cancel.as_ref().map_or_else(system, |cancel| cancel.by.clone());
            finish_cancelled(ws, node, now, by);
        }
        _ => {
            let message = format!("child flow {} failed; look at its members", flow.id);
            let error = TaskError::new("child_flow_failed", message);
            finish_failed(ws, node, now, Reason::ChildFlowFailed, Some(error));
        }
    }
    if let State::Ended(end) = &mut node.live.state {
        end.remove_at = end.remove_at.max(flow.live.keep_until);
    }
}

/// Why nothing of a flow may run again: it, or a flow around it, was cancelled.
pub(in crate::commands) fn check_not_cancelled(ws: &Workspace, flow: FlowId) -> Result<(), Stop> {
    let mut id = flow;
    loop {
        let around: &Arc<Flow> = ws.require_flow(id)?;
        if around.live.cancel.is_some() {
            return Err(Rejection::FlowCancelled { flow: id, verb: "replaying its members".into() }.into());
        }
        let Some(node) = around.spec.parent else { return Ok(()) };
        let Some(flow) = ws.require(node)?.flow() else { return Ok(()) };
        id = flow;
    }
}
