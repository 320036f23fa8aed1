//! What must hold of a flow and its members after every commit that touched them, and of the step that led there.

use std::collections::BTreeSet;

use ff_core::change::Changes;
use ff_core::event::{Event, Fact};
use ff_core::execution::Execution;
use ff_core::flow::recount::{Graph, child_problem};
use ff_core::flow::{GroupState, ListKey};
use ff_core::fold::FoldedFlow;
use ff_core::state::Reason;
use ff_core::{ExecutionId, FlowId};

use super::Check;
use super::history::History;
use super::mirror::Mirror;

/// The flows that a commit touched.
pub fn touched(changes: &Changes, before: &Mirror) -> BTreeSet<FlowId> {
    let members = changes.executions.iter().filter_map(|change| {
        use ff_core::change::ExecutionChange::{Insert, Purge, Update};
        match change {
            Insert(it) | Update(it) => it.flow(),
            Purge(id) => before.executions.get(id).and_then(|it| it.flow()),
        }
    });
    let edges = changes
        .edges
        .iter()
        .filter_map(|(key, edge)| edge.as_ref().or_else(|| before.edges.get(key)).map(|edge| edge.flow));
    changes.flows.iter().map(|(id, _)| *id).chain(members).chain(edges).collect()
}

/// The records of a flow agree with each other and with its events.
pub fn check_flow(mirror: &Mirror, history: &History, id: FlowId) -> Check {
    let folded = history.flows.get(&id).and_then(|life| life.folded.as_ref());
    let Some(flow) = mirror.flows.get(&id) else {
        ensure!(folded.is_none(), "flow {id} is gone, its events say {folded:?}");
        ensure!(mirror.members(id).next().is_none(), "flow {id} is gone and members of it are not");
        return Ok(());
    };
    let stored = FoldedFlow::of(flow);
    ensure!(folded == Some(&stored), "flow {id}: events say {folded:?}, stored is {stored:?}");
    let edges = mirror.members(id).flat_map(|it| mirror.edges_of(ListKey::Downstream(it.id)));
    let graph = Graph::new(flow, mirror.members(id).map(|it| &**it), edges.map(|it| &**it));
    for member in mirror.members(id) {
        let child = member.child_flow().and_then(|id| mirror.flows.get(&id));
        let problem = child_problem(member, child.map(|it| &**it));
        ensure!(problem.is_none(), "flow {id}: {}", problem.unwrap_or_default());
    }
    match graph.problems(mirror.header.now).into_iter().next() {
        Some(problem) => Err(format!("{problem}\n  {:?}", flow.live)),
        None => Ok(()),
    }
}

/// How a member's group may go from one commit to the next: it is decided once, and only what was impossible is
/// open again, in a new series.
pub fn check_step(before: &Execution, after: &Execution, changes: &Changes) -> Check {
    let (Some(old), Some(new)) = (before.node(), after.node()) else { return Ok(()) };
    let id = after.id;
    let removed = |event: &Event| event.execution == Some(id) && matches!(event.fact, Fact::Removed { .. });
    if changes.events.iter().any(removed) {
        return Ok(());
    }
    ensure!(old.group.total <= new.group.total, "{id} loses inbound edges");
    ensure!(old.open || !new.open, "{id} is open again");
    ensure!(old.level <= new.level, "the level of {id} falls");
    let fixed = old.group.total == 0 || old.group.join == new.group.join;
    ensure!(fixed, "the policy of {id} changes with edges: {:?} {:?}", old.group, new.group);
    let series = (before.live.series.number, after.live.series.number);
    match (old.group.state, new.group.state) {
        (GroupState::Satisfied, GroupState::Satisfied) | (GroupState::Waiting, _) => Ok(()),
        (GroupState::Impossible, _) if series.0 < series.1 => Ok(()),
        (GroupState::Impossible, GroupState::Impossible) => Ok(()),
        (was, is) => Err(format!("the group of {id} was {was} and is {is} in series {series:?}")),
    }
}

/// A decision is told once: a node that is no spare is admitted once in its life, and once more by an operator who
/// lets go of it.
pub fn check_admitted(admitted: u32, it: &Execution) -> Check {
    let spare = it.spec.member.as_ref().is_some_and(|member| member.hedge.is_some());
    ensure!(spare || admitted <= 1, "{} is admitted {admitted} times", it.id);
    Ok(())
}

/// Nothing starts whose flow was being cancelled, or that a join had dropped, when the commit began.
pub fn check_start(id: ExecutionId, changes: &Changes, before: &Mirror) -> Check {
    let Some(member) = before.executions.get(&id) else { return Ok(()) };
    let Some(flow) = member.flow().and_then(|flow| before.flows.get(&flow)) else { return Ok(()) };
    // A child flow that was cancelled with its node runs again with it.
    let revived = |event: &Event| event.flow == Some(flow.id) && matches!(event.fact, Fact::FlowReopened);
    let cancelled = flow.cancels(member) && !changes.events.iter().any(revived);
    ensure!(!cancelled, "{id} starts although its flow {} is being cancelled", flow.id);
    let again = |event: &Event| event.flow == Some(flow.id) && matches!(event.fact, Fact::Replayed { .. });
    if member.end().is_some() || changes.events.iter().any(again) {
        return Ok(());
    }
    let dependents: Vec<_> = before.edges_of(ListKey::Downstream(id)).collect();
    let executions = dependents
        .iter()
        .filter_map(|edge| Some((edge.number, before.executions.get(&edge.key.downstream)?)));
    let executions: Vec<_> = executions.collect();
    let undecided = |it: &Execution| {
        it.end().is_none() && it.node().is_some_and(|node| node.group.state == GroupState::Waiting)
    };
    // A join that has decided without it and has not come to it yet.
    let drops = |(number, it): &(u64, &std::sync::Arc<Execution>)| {
        let Some(node) = it.node() else { return false };
        let loser = it.end().is_some_and(|end| {
            matches!(end.reason, Reason::SiblingQuorumSatisfied | Reason::SiblingQuorumImpossible)
        });
        let decided = node.group.state != GroupState::Waiting && node.group.join.cancels();
        (loser || decided) && node.passing.and_then(|it| it.up).is_some_and(|after| after < *number)
    };
    let dropped = executions.iter().all(|(_, it)| !undecided(it)) && executions.iter().any(drops);
    ensure!(!dropped, "{id} starts although no join needs it any more");
    Ok(())
}
