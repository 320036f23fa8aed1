//! Somebody who builds flows, grows them while they run, and meddles with them.

use ff_core::commands::{
    AddEdges, AddNodes, CancelFlow, CreateFlow, Expand, NewNode, Replay, Seal, SetGroupPolicy, TagFlow,
};
use ff_core::execution::Fence;
use ff_core::flow::{CancelPolicy, ListKey};
use ff_core::tags::Tags;
use ff_core::{Command, ExecutionId, Flow, FlowId, Namespace, Payload, Route};

use super::call::Owner;
use super::graph::{Ground, Parts, join, new_edge};
use super::queue::Happening;
use super::submission::kind;
use super::{World, trace};
use crate::check::Check;
use crate::profile::PARTITIONS;

/// How many flows run at a time, and how many nodes each may have, so that each step can be checked whole.
const FLOWS_MAX: usize = 4;
const NODES_MAX: u64 = 40;
/// How many flows may be inside one another.
const DEPTH: u8 = 2;

const POLICIES: [CancelPolicy; 3] =
    [CancelPolicy::FlowOnly, CancelPolicy::CancelPending, CancelPolicy::CancelAll];

impl World {
    pub(super) fn flow_client_wakes(&mut self) -> Check {
        let Some(pause) = self.profile.flow_ms.filter(|_| self.healed.is_none()) else { return Ok(()) };
        self.later(0, pause, Happening::FlowClientWakes);
        let Some(command) = self.flow_command() else { return Ok(()) };
        // What the edge of the system refuses never reaches a server.
        if command.validate(&self.profile.limits).is_ok() {
            let call = self.command(Owner::Client, command);
            trace!(self, "a flow client asks call {call} {}", self.calls[call].what.name());
        }
        Ok(())
    }

    fn flow_command(&mut self) -> Option<Command> {
        let stored = |id: &FlowId| self.stored_flow(*id).is_some_and(|flow| flow.live.end.is_none());
        let live: Vec<FlowId> = self.flows.iter().copied().filter(stored).collect();
        if live.is_empty() || (live.len() < FLOWS_MAX && self.rng.chance(1_500)) {
            return Some(self.create_flow());
        }
        let id = match self.rng.chance(9_000) {
            true => *self.rng.pick(&live),
            false => *self.rng.pick(&self.flows),
        };
        let flow = self.stored_flow(id)?.clone();
        let members = self.members(id);
        match self.rng.below(20) {
            0..=4 => Some(self.add_nodes(&flow, members)),
            5..=7 => self.add_edges(&flow, &members),
            8 | 9 => self.seal_node(&flow),
            10 => Some(self.seal(&flow, None)),
            11 => self.set_policy(&flow),
            12 if self.rng.chance(5_000) => Some(self.cancel_flow(id)),
            13 => Some(self.tag_flow(id)),
            14 | 15 => self.replay_ended(&members),
            _ if members.is_empty() => None,
            _ => {
                let member = *self.rng.pick(&members);
                Some(self.meddle(member))
            }
        }
    }

    fn stored_flow(&self, id: FlowId) -> Option<&std::sync::Arc<Flow>> {
        self.store.mirrors[id.route().partition(PARTITIONS).index()].flows.get(&id)
    }

    fn members(&self, id: FlowId) -> Vec<ExecutionId> {
        let mirror = &self.store.mirrors[id.route().partition(PARTITIONS).index()];
        mirror.members(id).map(|it| it.id).collect()
    }

    fn create_flow(&mut self) -> Command {
        let route = Route(self.rng.draw() as u16);
        let id = FlowId::from_parts(self.now, route, self.rng.draw());
        self.flows.push(id);
        let sealed = self.rng.chance(3_000);
        let ground = Ground { route, now: self.now, members: Vec::new(), open: !sealed, depth: DEPTH };
        let count = *self.rng.pick(&[0, 1, 3, 6, 12, 20]);
        let Parts { nodes, edges } = Parts::draw(&mut self.rng, &self.profile, &ground, count);
        self.flows.extend(children(&nodes));
        if let Some(node) = nodes.first()
            && self.rng.chance(self.profile.poison)
        {
            self.store.poison.insert(node.create.id);
        }
        let namespace = Namespace::parse("acme").expect("the namespaces of the simulation are valid");
        let (fresh, actor) = (false, "somebody".into());
        let (kind, tags) = (kind("charge"), Tags::default());
        CreateFlow { id, fresh, namespace, kind, tags, nodes, edges, sealed, actor }.into()
    }

    /// What somebody believes the revision to be.
    fn expected_revision(&mut self, flow: &Flow) -> Option<u64> {
        let revision = flow.live.revision;
        self.rng.maybe(3_000, |rng| if rng.chance(8_000) { revision } else { revision.saturating_sub(1) })
    }

    fn add_nodes(&mut self, flow: &Flow, members: Vec<ExecutionId>) -> Command {
        let expected_revision = self.expected_revision(flow);
        let count = if flow.live.nodes > NODES_MAX { 0 } else { self.rng.below(5) };
        let ground = Ground { route: flow.id.route(), now: self.now, members, open: true, depth: DEPTH };
        let Parts { nodes, edges } = Parts::draw(&mut self.rng, &self.profile, &ground, count);
        self.flows.extend(children(&nodes));
        AddNodes { flow: flow.id, expected_revision, nodes, edges, actor: "somebody".into() }.into()
    }

    /// Mostly into nodes that are open, now and then in a circle.
    fn add_edges(&mut self, flow: &Flow, members: &[ExecutionId]) -> Option<Command> {
        if members.is_empty() {
            return None;
        }
        let open = self.open_nodes(flow);
        let mut edges = Vec::new();
        for _ in 0..self.rng.below(4) + 1 {
            let anywhere = open.is_empty() || self.rng.chance(500);
            let downstream = *self.rng.pick(if anywhere { members } else { &open });
            let upstream = *self.rng.pick(members);
            edges.push(new_edge(&mut self.rng, upstream, downstream));
        }
        let expected_revision = self.expected_revision(flow);
        Some(AddEdges { flow: flow.id, expected_revision, edges, actor: "somebody".into() }.into())
    }

    fn open_nodes(&self, flow: &Flow) -> Vec<ExecutionId> {
        let mirror = &self.store.mirrors[flow.id.route().partition(PARTITIONS).index()];
        let open = mirror.members(flow.id).filter(|it| it.node().is_some_and(|node| node.open));
        open.map(|it| it.id).collect()
    }

    fn seal_node(&mut self, flow: &Flow) -> Option<Command> {
        let open = self.open_nodes(flow);
        let node = if open.is_empty() { None } else { Some(*self.rng.pick(&open)) };
        node.map(|node| self.seal(flow, Some(node)))
    }

    fn seal(&mut self, flow: &Flow, node: Option<ExecutionId>) -> Command {
        let expected_revision = self.expected_revision(flow).filter(|_| self.healed.is_none());
        let (actor, cause) = ("somebody".into(), "it is whole".into());
        Seal { flow: flow.id, node, expected_revision, actor, cause }.into()
    }

    fn set_policy(&mut self, flow: &Flow) -> Option<Command> {
        let open = self.open_nodes(flow);
        let node = if open.is_empty() { None } else { Some(*self.rng.pick(&open)) }?;
        let expected_revision = self.expected_revision(flow);
        let inbound = self.rng.below(4);
        let join = join(&mut self.rng, inbound, true);
        let (actor, cause) = ("somebody".into(), "a whim".into());
        Some(SetGroupPolicy { flow: flow.id, node, join, expected_revision, actor, cause }.into())
    }

    fn cancel_flow(&mut self, flow: FlowId) -> Command {
        let policy = *self.rng.pick(&POLICIES);
        let (actor, cause) = ("somebody".into(), "a whim".into());
        CancelFlow { flow, policy, members_after: 0, actor, cause }.into()
    }

    fn tag_flow(&mut self, flow: FlowId) -> Command {
        let set = vec![("team".into(), self.rng.below(3).to_string().into_boxed_str())];
        let (actor, cause) = ("somebody".into(), "a whim".into());
        TagFlow { flow, set, remove: Vec::new(), actor, cause }.into()
    }

    /// Runs a member again that has ended, also one whose failure skipped others.
    fn replay_ended(&mut self, members: &[ExecutionId]) -> Option<Command> {
        let ended = |id: &&ExecutionId| {
            let mirror = &self.store.mirrors[id.route().partition(PARTITIONS).index()];
            mirror.executions.get(id).is_some_and(|it| it.end().is_some())
        };
        let ended: Vec<ExecutionId> = members.iter().filter(ended).copied().collect();
        if ended.is_empty() {
            return None;
        }
        let execution = *self.rng.pick(&ended);
        Some(Replay { execution, actor: "somebody".into(), cause: "once more".into(), ended_by: None }.into())
    }

    /// Now and then a member that completes adds what comes after itself.
    pub(super) fn maybe_expand(&mut self, fence: Fence, result: Option<Payload>) -> Option<Command> {
        self.profile.flow_ms.filter(|_| self.healed.is_none())?;
        let mirror = &self.store.mirrors[fence.execution.route().partition(PARTITIONS).index()];
        let flow = mirror.executions.get(&fence.execution)?.flow()?;
        if mirror.flows.get(&flow)?.live.nodes > NODES_MAX || !self.rng.chance(2_000) {
            return None;
        }
        let waiting = mirror.edges_of(ListKey::Downstream(fence.execution));
        let waiting: Vec<ExecutionId> = waiting.map(|edge| edge.key.downstream).collect();
        let route = fence.execution.route();
        let ground =
            Ground { route, now: self.now, members: vec![fence.execution], open: false, depth: DEPTH };
        let count = self.rng.below(4) + 1;
        let Parts { nodes, mut edges } = Parts::draw(&mut self.rng, &self.profile, &ground, count);
        if !waiting.is_empty() && self.rng.chance(5_000) {
            let (upstream, downstream) = (self.rng.pick(&nodes).create.id, *self.rng.pick(&waiting));
            edges.push(new_edge(&mut self.rng, upstream, downstream));
        }
        self.flows.extend(children(&nodes));
        let command: Command = Expand { fence, result, nodes, edges }.into();
        command.validate(&self.profile.limits).is_ok().then_some(command)
    }

    /// After the faults: flows that still take nodes are sealed, or cancelled where that is not possible.
    pub(super) fn close_flows(&mut self) {
        let all = self.store.mirrors.iter().flat_map(|mirror| mirror.flows.values());
        let open: Vec<_> = all.filter(|flow| !flow.live.sealed).take(20).cloned().collect();
        for flow in open {
            let command = match flow.live.short_groups {
                0 => self.seal(&flow, None),
                _ => self.cancel_flow(flow.id),
            };
            self.command(Owner::Client, command);
        }
    }
}

/// The flows that nodes stand for, also those inside others.
fn children(nodes: &[NewNode]) -> Vec<FlowId> {
    let inner = nodes.iter().filter_map(|node| node.child.as_deref());
    inner.flat_map(|child| children(&child.nodes).into_iter().chain([child.id])).collect()
}
