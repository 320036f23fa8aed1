//! What random programs do with flows: they are made, grown from outside and by their members, sealed, cancelled.

use ff_core::commands::{self, Command, Create, NewChild, NewEdge, NewNode};
use ff_core::flow::{CancelPolicy, Join, On, OnSatisfied};
use ff_core::tags::Tags;
use ff_core::{ExecutionId, FlowId, Ms, PartitionId, Payload, Route};

use super::{Program, by};
use crate::conformance::samples;
use crate::conformance::stand::START;

/// A flow as the program remembers it.
#[derive(Debug)]
pub(super) struct Sketch {
    id: FlowId,
    members: Vec<ExecutionId>,
    /// Those that may get more inbound edges.
    open: Vec<ExecutionId>,
}

/// Nodes with the edges that lead to them.
type Parts = (Vec<NewNode>, Vec<NewEdge>);

impl Program {
    pub(super) fn about_flow(&mut self, partition: PartitionId) -> Option<Command> {
        let here = |flow: &Sketch| flow.id.route().partition(self.partitions) == partition;
        let recent = self.flows.iter().enumerate().rev().filter(|(_, flow)| here(flow)).take(3);
        let recent: Vec<usize> = recent.map(|(at, _)| at).collect();
        let Some(at) = self.dice.pick(&recent).copied().filter(|_| self.dice.below(4) > 0) else {
            return Some(self.create_flow(partition));
        };
        let flow = self.flows[at].id;
        let expected_revision = (self.dice.below(4) == 0).then(|| self.dice.below(4) as u64 + 1);
        let (actor, cause) = by();
        Some(match self.dice.below(10) {
            0 | 1 => {
                let members = self.flows[at].members.clone();
                let (nodes, edges) = self.parts(partition, &members, true);
                self.remember(at, &nodes);
                commands::AddNodes { flow, expected_revision, nodes, edges, actor }.into()
            }
            2 | 3 => {
                let edges = self.edges_into_open(at)?;
                commands::AddEdges { flow, expected_revision, edges, actor }.into()
            }
            4 => {
                let node = self.dice.pick(&self.flows[at].open).copied();
                commands::Seal { flow, node, expected_revision, actor, cause }.into()
            }
            5 => commands::Seal { flow, node: None, expected_revision, actor, cause }.into(),
            6 => {
                let node = *self.dice.pick(&self.flows[at].open)?;
                let join = self.join(2);
                commands::SetGroupPolicy { flow, node, join, expected_revision, actor, cause }.into()
            }
            7 => {
                let set = vec![("seen".into(), self.dice.below(9).to_string().into())];
                commands::TagFlow { flow, set, remove: vec!["team".into()], actor, cause }.into()
            }
            8 if self.dice.below(3) == 0 => {
                let all = [CancelPolicy::FlowOnly, CancelPolicy::CancelPending, CancelPolicy::CancelAll];
                let policy = all[self.dice.below(3)];
                commands::CancelFlow { flow, policy, members_after: 0, actor, cause }.into()
            }
            _ => self.expand(partition, at)?,
        })
    }

    fn create_flow(&mut self, partition: PartitionId) -> Command {
        let id = FlowId::from_parts(START + self.next(), Route(partition.0), self.dice.roll());
        let sealed = self.dice.below(3) == 0;
        let (nodes, edges) = self.parts(partition, &[], !sealed);
        self.flows.push(Sketch { id, members: Vec::new(), open: Vec::new() });
        self.remember(self.flows.len() - 1, &nodes);
        let tags = match self.dice.below(3) {
            0 => samples::tags(&[("team", samples::ODD)]),
            _ => Tags::default(),
        };
        let (namespace, kind) = (samples::namespace("acme"), samples::kind("nightly"));
        let actor = by().0;
        commands::CreateFlow { id, fresh: false, namespace, kind, tags, nodes, edges, sealed, actor }.into()
    }

    fn remember(&mut self, at: usize, nodes: &[NewNode]) {
        let ids = |nodes: &[NewNode]| nodes.iter().map(|node| node.create.id).collect::<Vec<_>>();
        let inner = nodes.iter().filter_map(|node| node.child.as_deref());
        for child in inner {
            self.executions.extend(ids(&child.nodes));
        }
        self.executions.extend(ids(nodes));
        self.flows[at].members.extend(ids(nodes));
        self.flows[at].open.extend(nodes.iter().filter(|node| node.open).map(|node| node.create.id));
    }

    /// A few nodes, each with edges from nodes that are there or come before it.
    fn parts(&mut self, partition: PartitionId, members: &[ExecutionId], may_be_open: bool) -> Parts {
        let (mut nodes, mut edges) = (Vec::<NewNode>::new(), Vec::new());
        for _ in 0..1 + self.dice.below(5) {
            let known: Vec<ExecutionId> =
                members.iter().copied().chain(nodes.iter().map(|node| node.create.id)).collect();
            let mut node = self.node(partition);
            let mut upstreams: Vec<ExecutionId> =
                (0..self.dice.below(4)).filter_map(|_| self.dice.pick(&known).copied()).collect();
            upstreams.sort();
            upstreams.dedup();
            node.open = may_be_open && self.dice.below(4) == 0;
            node.join = if upstreams.is_empty() { Join::AllOf } else { self.join(upstreams.len()) };
            let downstream = node.create.id;
            edges.extend(upstreams.iter().map(|upstream| self.edge(*upstream, downstream)));
            if self.dice.below(8) == 0 {
                node.child = Some(Box::new(self.child(partition)));
            }
            nodes.push(node);
        }
        self.hedge(&mut nodes, &edges);
        (nodes, edges)
    }

    /// Staggers the upstreams of the last node, where they are all new and only there.
    fn hedge(&mut self, nodes: &mut [NewNode], edges: &[NewEdge]) {
        let new: Vec<ExecutionId> = nodes.iter().map(|node| node.create.id).collect();
        let Some(last) = nodes.last_mut() else { return };
        let into_last = edges.iter().filter(|edge| edge.downstream == last.create.id);
        let spares = into_last.map(|edge| edge.upstream).filter(|id| new.contains(id));
        let spares: Vec<(ExecutionId, Ms)> = spares.map(|id| (id, self.ms(1_500))).collect();
        if spares.len() > 1 && self.dice.below(2) == 0 {
            last.hedge = spares;
        }
    }

    fn node(&mut self, partition: PartitionId) -> NewNode {
        let id = ExecutionId::from_parts(START + self.next(), Route(partition.0), self.dice.roll());
        let input = Payload::json(format!("{{\"n\":{}}}", self.made));
        let mut create = Create::new(id, samples::kind("step"), input);
        create.lane = samples::lane_name(["default", "slow lane"][self.dice.below(2)]);
        create.policy.lease_ms = 2_000;
        create.policy.max_attempts = 1 + self.dice.below(2) as u32;
        create.policy.schedule_to_start_ms = (self.dice.below(6) == 0).then_some(9_000);
        // Few enough that a flow which grows is asked for one again.
        let name = (self.dice.below(2) == 0).then(|| format!("n{}", self.made % 20).parse().ok()).flatten();
        NewNode { name, ..NewNode::new(create) }
    }

    fn child(&mut self, partition: PartitionId) -> NewChild {
        let id = FlowId::from_parts(START + self.next(), Route(partition.0), self.dice.roll());
        let nodes: Vec<NewNode> = (0..self.dice.below(3)).map(|_| self.node(partition)).collect();
        let pairs = nodes.windows(2).map(|pair| (pair[0].create.id, pair[1].create.id));
        let edges = pairs.map(|(upstream, downstream)| NewEdge::new(upstream, downstream)).collect();
        NewChild { id, kind: samples::kind("inner"), tags: Tags::default(), nodes, edges, sealed: true }
    }

    fn edge(&mut self, upstream: ExecutionId, downstream: ExecutionId) -> NewEdge {
        let on = [On::Success, On::Success, On::Failure, On::Always][self.dice.below(4)];
        let field = (self.dice.below(3) == 0).then(|| format!("f{}", self.next()).parse().ok()).flatten();
        NewEdge { on, field, ..NewEdge::new(upstream, downstream) }
    }

    fn edges_into_open(&mut self, at: usize) -> Option<Vec<NewEdge>> {
        let downstream = *self.dice.pick(&self.flows[at].open)?;
        let count = 1 + self.dice.below(2);
        let members = self.flows[at].members.clone();
        let mut upstreams: Vec<ExecutionId> =
            (0..count).filter_map(|_| self.dice.pick(&members).copied()).collect();
        upstreams.sort();
        upstreams.dedup();
        upstreams.retain(|upstream| *upstream != downstream);
        Some(upstreams.into_iter().map(|upstream| self.edge(upstream, downstream)).collect())
    }

    fn join(&mut self, inbound: usize) -> Join {
        let on_satisfied = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun][self.dice.below(2)];
        match self.dice.below(4) {
            0 => Join::AnyOf { on_satisfied },
            1 => Join::Quorum { k: 1 + self.dice.below(inbound) as u32, on_satisfied },
            _ => Join::AllOf,
        }
    }

    /// A member that completes adds what comes after it.
    fn expand(&mut self, partition: PartitionId, at: usize) -> Option<Command> {
        let fences = self.fences.iter().filter(|it| self.flows[at].members.contains(&it.execution));
        let fences: Vec<_> = fences.copied().collect();
        let fence = *self.dice.pick(&fences)?;
        let (nodes, edges) = self.parts(partition, &[fence.execution], false);
        self.remember(at, &nodes);
        Some(commands::Expand { fence, result: self.result(), nodes, edges }.into())
    }

    fn next(&mut self) -> Ms {
        self.made += 1;
        self.made as Ms
    }
}
