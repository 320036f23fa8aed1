//! Nodes and edges are added to a graph: all of them, or none.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::child::{self, NewChild};
use super::member;
use super::names;
use super::order::make_room;
use crate::Ms;
use crate::commands::create::Create;
use crate::event::Fact;
use crate::execution::{Execution, State};
use crate::flow::{
    ChildState, Edge, EdgeKey, EdgeState, Ending, Flow, GroupState, Hedge, Join, ListKey, Member, Node, On,
    Way,
};
use crate::id::{ExecutionId, FlowId};
use crate::lane::LaneMode;
use crate::limits::Limits;
use crate::name::{FieldName, NodeName};
use crate::payload::{PayloadKey, Slot};
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::state::Reason;
use crate::workspace::{Stop, Todo, Workspace};

/// A node to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    /// The execution it is. Its id carries the route of the flow.
    pub create: Create,
    pub name: Option<NodeName>,
    pub join: Join,
    /// Inbound edges may be added later; until it or its flow is sealed nothing is decided about it.
    pub open: bool,
    /// Upstreams of this node that do not all start at once: each starts when the one before it has run for
    /// the given time. The first starts as usual.
    pub hedge: Vec<(ExecutionId, Ms)>,
    /// It is a whole flow: its members run instead of a worker when its turn comes.
    pub child: Option<Box<NewChild>>,
}

impl NewNode {
    pub fn new(create: Create) -> NewNode {
        NewNode { create, name: None, join: Join::AllOf, open: false, hedge: Vec::new(), child: None }
    }
}

/// An edge to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEdge {
    pub upstream: ExecutionId,
    pub downstream: ExecutionId,
    pub on: On,
    /// Under which name the downstream's input gets the upstream's result.
    pub field: Option<FieldName>,
}

impl NewEdge {
    pub fn new(upstream: ExecutionId, downstream: ExecutionId) -> NewEdge {
        NewEdge { upstream, downstream, on: On::Success, field: None }
    }

    fn key(&self) -> EdgeKey {
        EdgeKey { upstream: self.upstream, downstream: self.downstream }
    }
}

/// Who adds: somebody outside, or a member that has completed and adds what comes after itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adder {
    Outside,
    Member(ExecutionId),
}

/// Checks everything about nodes and edges that needs no stored state.
pub(super) fn validate(
    flow: FlowId,
    nodes: &[NewNode],
    edges: &[NewEdge],
    limits: &Limits,
) -> Result<(), Rejection> {
    let (all_nodes, all_edges) = child::size(nodes, edges, limits)?;
    for (field, count) in [("nodes", all_nodes), ("edges", all_edges)] {
        if count > limits.flow_items_max {
            let max = limits.flow_items_max;
            let problem = format!("are {count} in number; allowed are at most {max} in one call");
            return Err(Invalid::new(field, problem).into());
        }
    }
    let mut ids = FxHashSet::default();
    for node in nodes {
        node.create.validate(limits)?;
        let id = node.create.id;
        if id.route() != flow.route() {
            let problem = format!("is {id}, which does not carry the route of its flow; leave it to the SDK");
            return Err(Invalid::new("nodes.id", problem).into());
        }
        if node.create.idempotency_key.is_some() {
            let problem = "is not allowed on a node; the ids of its flow and itself do the same";
            return Err(Invalid::new("nodes.idempotency_key", problem).into());
        }
        if !ids.insert(id) {
            return Err(Invalid::new("nodes.id", format!("is {id} twice; each node has its own")).into());
        }
        if let Join::Quorum { k: 0, .. } = node.join {
            return Err(Invalid::new("nodes.join.k", "is 0; allowed is 1 or more").into());
        }
        if let Some(child) = &node.child {
            child.validate(flow, limits)?;
        }
        for (_, delay_ms) in &node.hedge {
            range("nodes.hedge.delay", *delay_ms, 0, limits.horizon_ms_max)?;
        }
    }
    names::validate(nodes)?;
    let mut keys = FxHashSet::default();
    for edge in edges {
        let EdgeKey { upstream, downstream } = edge.key();
        if upstream == downstream {
            return Err(Rejection::Cycle { upstream, downstream });
        }
        if !keys.insert(edge.key()) {
            return Err(Rejection::DuplicateEdge { upstream, downstream });
        }
    }
    validate_hedges(nodes, &ids, &keys)
}

/// A spare can wait for the one before it only if both are made together with the join they feed.
fn validate_hedges(
    nodes: &[NewNode],
    ids: &FxHashSet<ExecutionId>,
    keys: &FxHashSet<EdgeKey>,
) -> Result<(), Rejection> {
    let mut listed = FxHashSet::default();
    for node in nodes {
        for (upstream, _) in &node.hedge {
            let key = EdgeKey { upstream: *upstream, downstream: node.create.id };
            if !ids.contains(upstream) || !keys.contains(&key) {
                let problem = format!("names {upstream}, which is not added here with an edge to the node");
                return Err(Invalid::new("nodes.hedge", problem).into());
            }
            if !listed.insert(*upstream) {
                let problem = format!("names {upstream} twice; a node is in one hedge at most");
                return Err(Invalid::new("nodes.hedge", problem).into());
            }
        }
    }
    Ok(())
}

/// Adds nodes and edges to a flow. The caller has checked that the flow takes them, and stores it after.
pub(super) fn extend(
    ws: &mut Workspace,
    now: Ms,
    flow: &mut Flow,
    nodes: &[NewNode],
    edges: &[NewEdge],
    (adder, by): (Adder, &str),
) -> Result<(), Stop> {
    know(ws, nodes, edges)?;
    let mut inbound = FxHashMap::<ExecutionId, u32>::default();
    edges.iter().for_each(|edge| *inbound.entry(edge.downstream).or_default() += 1);
    for node in nodes {
        let total = inbound.get(&node.create.id).copied().unwrap_or(0);
        if !node.open && node.join.need(total) > total {
            let (node, k) = (node.create.id, node.join.need(total));
            return Err(Rejection::QuorumImpossible { node, k, total }.into());
        }
    }
    let hedges = hedges(nodes);
    for node in nodes {
        let total = inbound.get(&node.create.id).copied().unwrap_or(0);
        add_node(ws, now, flow, node, total, &hedges)?;
    }
    let added: FxHashSet<ExecutionId> = nodes.iter().map(|node| node.create.id).collect();
    for edge in edges {
        check_ends(ws, flow, edge, &added, adder)?;
        add_edge(ws, now, flow, edge, by)?;
    }
    // Groups are looked at only when all their edges are there.
    inbound.into_keys().for_each(|id| ws.follow_up(Todo::Look(id)));
    ws.follow_up(Todo::Flow(flow.id));
    Ok(())
}

/// Asks for everything at once that the nodes and edges refer to and that is not in memory.
fn know(ws: &Workspace, nodes: &[NewNode], edges: &[NewEdge]) -> Result<(), Stop> {
    let mut asks = Vec::new();
    // Those that were made for this very call count as seen.
    let mut seen: FxHashSet<ExecutionId> =
        nodes.iter().filter(|node| node.create.fresh).map(|node| node.create.id).collect();
    let old = nodes.iter().map(|node| node.create.id);
    let ends = edges.iter().flat_map(|edge| [edge.upstream, edge.downstream]);
    for id in old.chain(ends) {
        if seen.insert(id)
            && let Err(Stop::Need(more)) = ws.execution(id)
        {
            asks.extend(more);
        }
    }
    if asks.is_empty() { Ok(()) } else { Err(Stop::Need(asks)) }
}

#[derive(Default)]
struct Place {
    hedge: Option<Hedge>,
    spare: Option<ExecutionId>,
}

fn hedges(nodes: &[NewNode]) -> FxHashMap<ExecutionId, Place> {
    let mut places = FxHashMap::<ExecutionId, Place>::default();
    for list in nodes.iter().map(|node| &node.hedge) {
        for pair in list.windows(2) {
            let ((previous, _), (id, delay_ms)) = (pair[0], pair[1]);
            places.entry(previous).or_default().spare = Some(id);
            places.entry(id).or_default().hedge = Some(Hedge { previous, delay_ms });
        }
    }
    places
}

fn add_node(
    ws: &mut Workspace,
    now: Ms,
    flow: &mut Flow,
    new: &NewNode,
    inbound: u32,
    hedges: &FxHashMap<ExecutionId, Place>,
) -> Result<(), Stop> {
    let create = &new.create;
    let known = if create.fresh { ws.known_execution(create.id) } else { ws.execution(create.id)? };
    if known.is_some() {
        return Err(Rejection::IdempotencyMismatch { field: "id".into(), existing: create.id }.into());
    }
    if ws.lane(&create.lane).mode == LaneMode::Draining {
        return Err(Rejection::LaneDraining { lane: create.lane.clone() }.into());
    }
    flow.live.nodes += 1;
    let place = hedges.get(&create.id);
    let (deadline_at, until) = create.times(now, now)?;
    let mut execution = create.build(now, create.digest(), deadline_at, None);
    child::check_depth(flow, new)?;
    let member = Member {
        child: new.child.as_ref().map(|child| child.id),
        parent: flow.spec.parent,
        flow: flow.id,
        number: flow.live.nodes,
        name: new.name.clone(),
        start_at: until,
        hedge: place.and_then(|it| it.hedge),
        spare: place.and_then(|it| it.spare),
    };
    let mut spec = (*execution.spec).clone();
    spec.namespace = flow.spec.namespace.clone();
    spec.member = Some(Box::new(member));
    execution.spec = Arc::new(spec);
    let mut node = Node::new(new.join, new.open);
    flow.live.open_nodes += u64::from(new.open);
    flow.live.short_groups += u64::from(new.open && node.group.is_short());
    if !new.open && inbound == 0 && !flow.live.waits {
        node.group.state = GroupState::Satisfied;
    }
    let waits = if node.group.state == GroupState::Waiting {
        Some(Reason::WaitingForDependencies)
    } else {
        place.and_then(|it| it.hedge).map(|_| Reason::Hedge)
    };
    node.child = new.child.as_ref().map(|_| ChildState::Waits);
    execution.live.node = Some(Box::new(node));
    ws.begin_list(ListKey::Downstream(create.id));
    ws.begin_list(ListKey::Upstream(create.id));
    start(ws, &mut execution, now, waits, until);
    ws.put_payload(PayloadKey { execution: create.id, slot: Slot::Input }, create.input.clone());
    ws.put_execution(execution, now);
    match &new.child {
        Some(child) => child.found(ws, now, flow, create),
        None => Ok(()),
    }
}

/// The first state of a node: it waits for others, for a time, or for a worker.
fn start(ws: &mut Workspace, execution: &mut Execution, now: Ms, waits: Option<Reason>, until: Option<Ms>) {
    let (kind, priority) = (execution.spec.kind.clone(), execution.live.priority);
    let until = until.filter(|_| waits.is_none());
    let child = execution.child_flow().filter(|_| until.is_none());
    let waits = waits.or(child.map(|_| Reason::ChildFlow));
    let number = ws.emit(execution, now, Fact::Created { kind, priority, until, blocked: waits });
    execution.live.state = match (waits, until) {
        (Some(reason), _) => State::Blocked { reason },
        (None, Some(until)) => State::Delayed { until, reason: Reason::WaitingForDelay },
        (None, None) => {
            return crate::commands::lifecycle::make_ready(ws, execution, now, now, number);
        }
    };
}

fn check_ends(
    ws: &Workspace,
    flow: &Flow,
    edge: &NewEdge,
    added: &FxHashSet<ExecutionId>,
    adder: Adder,
) -> Result<(), Stop> {
    let EdgeKey { upstream, downstream } = edge.key();
    for id in [upstream, downstream] {
        member(ws, flow, "node", id)?;
    }
    if ws.edge(edge.key())?.is_some() {
        return Err(Rejection::DuplicateEdge { upstream, downstream }.into());
    }
    let closed = || Err(Rejection::GroupClosed { node: downstream }.into());
    if added.contains(&downstream) {
        // What a member adds comes after itself.
        return match adder {
            Adder::Member(member) if upstream != member && !added.contains(&upstream) => closed(),
            _ => Ok(()),
        };
    }
    let node = ws.require(downstream)?;
    let waits = super::group::is_undecided(node);
    let allowed = match adder {
        Adder::Outside => node.node().is_some_and(|node| node.open),
        Adder::Member(upstream) => {
            added.contains(&edge.upstream) && ws.edge(EdgeKey { upstream, downstream })?.is_some()
        }
    };
    if waits && allowed { Ok(()) } else { closed() }
}

fn add_edge(ws: &mut Workspace, now: Ms, flow: &mut Flow, new: &NewEdge, by: &str) -> Result<(), Stop> {
    let key = new.key();
    make_room(ws, now, key, flow.live.edges)?;
    flow.live.edges += 1;
    let mut upstream = (**ws.require(key.upstream)?).clone();
    let mut downstream = (**ws.require(key.downstream)?).clone();
    let counted = upstream.end().map(Ending::of);
    let mut edge = Edge {
        key,
        flow: flow.id,
        number: flow.live.edges,
        on: new.on,
        field: new.field.clone(),
        counted,
        needed: counted.is_none(),
        passes: false,
        created_at: now,
        created_by: by.into(),
    };
    edge.passes = edge.state() == EdgeState::Satisfied;
    if let Some(node) = upstream.live.node.as_deref_mut() {
        node.dependents += 1;
        node.needed += u32::from(edge.needed);
    }
    if let Some(node) = downstream.live.node.as_deref_mut() {
        let was_short = node.open && node.group.is_short();
        node.group.total += 1;
        node.group.named += u32::from(edge.field.is_some());
        counted.into_iter().for_each(|it| node.group.count(it, edge.state(), Way::In));
        let is_short = node.open && node.group.is_short();
        flow.live.short_groups = flow.live.short_groups + u64::from(is_short) - u64::from(was_short);
    }
    ws.put_execution(upstream, now);
    ws.put_execution(downstream, now);
    ws.put_edge(edge);
    Ok(())
}
