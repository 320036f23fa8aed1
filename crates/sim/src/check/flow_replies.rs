//! Answers about flows: each must have been true at some moment since it was asked for.

use ff_core::commands::{NewEdge, NewNode};
use ff_core::flow::{EdgeKey, ListKey};
use ff_core::fold::FoldedFlow;
use ff_core::lane::LaneMode;
use ff_core::state::PublicState;
use ff_core::{Command, ExecutionId, Flow, FlowId, PartitionId, Rejection, Reply};

use super::history::{History, Seq};
use super::mirror::Mirror;

/// The flow a command is about; of what a member adds, its own.
fn flow_of(command: &Command, mirror: &Mirror) -> Option<FlowId> {
    match command {
        Command::CreateFlow(it) => Some(it.id),
        Command::AddNodes(it) => Some(it.flow),
        Command::AddEdges(it) => Some(it.flow),
        Command::Seal(it) => Some(it.flow),
        Command::SetGroupPolicy(it) => Some(it.flow),
        Command::CancelFlow(it) => Some(it.flow),
        Command::TagFlow(it) => Some(it.flow),
        Command::Expand(it) => mirror.executions.get(&it.fence.execution).and_then(|it| it.flow()),
        Command::Replay(it) => mirror.executions.get(&it.execution).and_then(|it| it.flow()),
        _ => None,
    }
}

fn parts(command: &Command) -> (&[NewNode], &[NewEdge]) {
    match command {
        Command::CreateFlow(it) => (&it.nodes, &it.edges),
        Command::AddNodes(it) => (&it.nodes, &it.edges),
        Command::AddEdges(it) => (&[], &it.edges),
        Command::Expand(it) => (&it.nodes, &it.edges),
        _ => (&[], &[]),
    }
}

/// Whether an answer to a command about a flow was true; `None` if it is not about one.
pub fn fits(history: &History, since: Seq, command: &Command, reply: &Reply) -> Option<bool> {
    let was = |flow: &Flow| {
        let folded = FoldedFlow::of(flow);
        history.flow_was(flow.id, since, |was| was == Some(&folded))
    };
    Some(match (command, reply) {
        (Command::CreateFlow(it), Reply::Flow { flow, existing: false }) => {
            let life = history.flows.get(&it.id);
            let created = life.is_some_and(|life| life.created.iter().any(|at| *at > since));
            flow.id == it.id && created && was(flow)
        }
        (Command::CreateFlow(_) | Command::AddNodes(_), Reply::Flow { flow, existing: true }) => was(flow),
        (
            Command::AddNodes(_) | Command::AddEdges(_) | Command::Seal(_) | Command::TagFlow(_),
            Reply::Flow { flow, existing: false },
        ) => was(flow),
        (Command::SetGroupPolicy(it), Reply::PolicySet { .. }) => {
            history.was(it.node, since, |was| was.is_some())
        }
        (Command::CancelFlow(it), Reply::FlowCancelled { flow, members, .. }) => {
            let at_least = |was: &FoldedFlow| was.cancelled >= Some(it.policy);
            let strict = history.flow_was(it.flow, since, |was| was.is_some_and(at_least));
            // Said again of a flow that has ended, what was said first stands.
            let over = flow.live.end.is_some();
            (strict || over) && was(flow) && members.len() as u64 <= flow.live.nodes
        }
        _ => return None,
    })
}

/// Whether a rejection that only flows have was true; `None` if it is another.
pub fn was_true(
    history: &History,
    mirror: &Mirror,
    partition: PartitionId,
    since: Seq,
    command: &Command,
    rejection: &Rejection,
) -> Option<bool> {
    let flow_was = |id: FlowId, fits: &dyn Fn(&FoldedFlow) -> bool| {
        history.flow_was(id, since, |was| was.is_some_and(fits))
    };
    let (nodes, edges) = parts(command);
    Some(match rejection {
        Rejection::FlowClosed { flow, .. } => flow_was(*flow, &|was| was.sealed),
        Rejection::FlowEnded { flow, state } => flow_was(*flow, &|was| was.ended == Some(*state)),
        Rejection::FlowCancelled { flow, .. } => flow_was(*flow, &|was| was.cancelled.is_some()),
        Rejection::RevisionMismatch { flow, revision, expected } => {
            expected != revision && flow_was(*flow, &|was| was.revision == *revision)
        }
        Rejection::FlowMismatch { flow } => flow_was(*flow, &|_| true),
        Rejection::NotFound { what, id } if what == "flow" => {
            let id = flow_of(command, mirror).filter(|flow| flow.to_string() == *id)?;
            history.flow_was(id, since, |was| was.is_none())
        }
        Rejection::NotFound { what, id } if what == "node" => {
            let ends = edges.iter().flat_map(|edge| [edge.upstream, edge.downstream]);
            let id = ends.into_iter().find(|it| it.to_string() == *id)?;
            history.was(id, since, |was| was.is_none())
        }
        Rejection::IdempotencyMismatch { existing, .. } if !nodes.is_empty() => {
            history.was(*existing, since, |was| was.is_some())
        }
        Rejection::LaneDraining { lane } if !nodes.is_empty() => {
            history.lane_was(partition, lane, since, LaneMode::Draining)
        }
        // Edges are not taken away while their flow lives, so these can still be seen.
        Rejection::DuplicateEdge { upstream, downstream } => {
            let key = EdgeKey { upstream: *upstream, downstream: *downstream };
            mirror.edges.contains_key(&key) || is_gone(history, since, command, mirror)
        }
        Rejection::Cycle { upstream, downstream } => {
            let (mut all_nodes, mut all_edges) = (Vec::new(), Vec::new());
            gather(nodes, edges, &mut all_nodes, &mut all_edges);
            let added = (&*all_nodes, &*all_edges);
            leads(mirror, added, *downstream, *upstream) || is_gone(history, since, command, mirror)
        }
        Rejection::PolicyFixed { node } => {
            let stored = mirror.executions.get(node).and_then(|it| it.node());
            stored.is_some_and(|node| node.group.total > 0) || is_gone(history, since, command, mirror)
        }
        Rejection::GroupClosed { node } => {
            history.was(*node, since, |was| was.is_some()) || nodes.iter().any(|it| it.create.id == *node)
        }
        Rejection::QuorumImpossible { k, total, .. } => k > total,
        Rejection::OtherFlow { execution, .. } => history.was(*execution, since, |was| was.is_some()),
        Rejection::SkippedByOthers { execution } => {
            history.was(*execution, since, |was| was.is_some_and(|was| was.state == PublicState::Skipped))
        }
        Rejection::InFlow { execution, .. } => history.was(*execution, since, |was| was.is_some()),
        Rejection::Invalid(invalid) => match command {
            Command::Seal(it) => invalid.field == "flow" && flow_was(it.flow, &|was| !was.sealed),
            Command::Hold(_) => invalid.field == "execution",
            _ if !nodes.is_empty() => has_deadline(nodes),
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether the flow was removed, so that nothing can be looked at any more.
fn is_gone(history: &History, since: Seq, command: &Command, mirror: &Mirror) -> bool {
    match flow_of(command, mirror) {
        Some(id) => history.flow_was(id, since, |was| was.is_none()),
        None => true,
    }
}

/// Nodes and edges with those of the child flows inside them.
fn gather<'a>(
    nodes: &'a [NewNode],
    edges: &'a [NewEdge],
    all_nodes: &mut Vec<&'a NewNode>,
    all_edges: &mut Vec<&'a NewEdge>,
) {
    all_nodes.extend(nodes);
    all_edges.extend(edges);
    for child in nodes.iter().filter_map(|node| node.child.as_ref()) {
        gather(&child.nodes, &child.edges, all_nodes, all_edges);
    }
}

/// Whether a way leads from one node to another, over stored edges and those to be added. A spare comes after the
/// one it is for.
fn leads(
    mirror: &Mirror,
    (nodes, edges): (&[&NewNode], &[&NewEdge]),
    from: ExecutionId,
    to: ExecutionId,
) -> bool {
    let (mut stack, mut seen) = (vec![from], std::collections::BTreeSet::new());
    while let Some(id) = stack.pop() {
        if id == to {
            return true;
        }
        if seen.insert(id) {
            let stored = mirror.edges_of(ListKey::Downstream(id)).map(|edge| edge.key.downstream);
            stack.extend(stored);
            let member = mirror.executions.get(&id).and_then(|it| it.spec.member.as_ref());
            stack.extend(member.and_then(|member| member.spare));
            let pairs = nodes.iter().flat_map(|node| node.hedge.windows(2));
            stack.extend(pairs.filter(|pair| pair[0].0 == id).map(|pair| pair[1].0));
            stack.extend(edges.iter().filter(|edge| edge.upstream == id).map(|edge| edge.downstream));
        }
    }
    false
}

/// Whether one of these nodes, or of those inside them, may have been late.
fn has_deadline(nodes: &[NewNode]) -> bool {
    let inner = |node: &NewNode| node.child.as_ref().is_some_and(|child| has_deadline(&child.nodes));
    nodes.iter().any(|node| node.create.deadline.is_some() || inner(node))
}
