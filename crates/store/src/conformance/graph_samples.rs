//! Flows, members and edges made by hand.

use std::sync::Arc;

use ff_core::execution::{ContentDigest, Execution, Spec, State};
use ff_core::flow::{
    CancelPolicy, Edge, EdgeKey, Ending, Flow, FlowCancel, FlowEnd, FlowLive, FlowSpec, FlowState, Hedge,
    Join, Member, Node, On, OnSatisfied, Summary, Walk,
};
use ff_core::state::{PublicState, Reason};
use ff_core::tags::Tags;
use ff_core::{ExecutionId, FlowId, Ms, Route};

use super::samples::{ODD, cancellation, execution, kind, namespace, odd, tags, with_state};
use super::stand::START;

/// Which member of which flow.
#[derive(Clone, Copy, Debug)]
pub struct NodeSample {
    pub flow: FlowId,
    pub number: u64,
}

/// A member of a flow that waits for others, in which every field that can be there is there.
pub fn member(id: ExecutionId, node: NodeSample) -> Execution {
    let mut it = with_state(execution(id), State::Blocked { reason: Reason::WaitingForDependencies });
    let other = ExecutionId::from_parts(START, Route(3), 77);
    let member = Member {
        flow: node.flow,
        number: node.number,
        name: Some("step/ö'1".parse().expect("a name")),
        start_at: Some(START + 5),
        hedge: Some(Hedge { previous: other, delay_ms: 2_000 }),
        spare: Some(other),
        child: Some(FlowId(other.0)),
        parent: Some(other),
    };
    it.spec = Arc::new(Spec { member: Some(Box::new(member)), ..(*it.spec).clone() });
    let join = Join::Quorum { k: 3, on_satisfied: OnSatisfied::LetRun };
    let node = Node {
        level: 1 << 20,
        dependents: 5,
        needed: 4,
        unwanted: Some(Reason::SiblingQuorumSatisfied),
        absorbed: true,
        failure: true,
        hedge_until: Some(START + 9),
        ..Node::new(join, true)
    };
    it.live.node = Some(Box::new(node));
    it
}

/// Flows with every optional part absent once and present once.
pub fn flows(id: FlowId) -> Vec<Flow> {
    let mut summary = Summary::default();
    PublicState::ALL.iter().for_each(|state| summary.add(*state));
    let live = FlowLive {
        tags: Tags::default(),
        revision: 1,
        sealed: false,
        nodes: 11,
        edges: 1 << 40,
        summary,
        held: 1,
        open_nodes: 2,
        short_groups: 1,
        passing: 3,
        failures: 4,
        waits: false,
        children: 0,
        moving_children: 0,
        cancel: None,
        walk: None,
        names_kept: false,
        keep_until: 0,
        end: None,
        changed_at: START,
    };
    let plain = Flow { id, spec: Arc::new(flow_spec()), live };
    let mut full = plain.clone();
    full.live = FlowLive {
        tags: tags(&[("team.name", ODD)]),
        revision: 1 << 40,
        sealed: true,
        waits: true,
        children: 5,
        moving_children: 2,
        cancel: Some(FlowCancel { policy: CancelPolicy::CancelPending, by: cancellation() }),
        walk: Some(Walk { since: START + 3, after: 7, revive: true }),
        names_kept: true,
        keep_until: START + 4,
        ..full.live
    };
    let ended = ended_flow(id, START + 604_800_000);
    vec![plain.clone(), full, ended, plain]
}

fn flow_spec() -> FlowSpec {
    FlowSpec {
        namespace: namespace("acme.eu-1"),
        kind: kind("orders/ß漢"),
        created_at: START - 5,
        created_by: odd(),
        digest: ContentDigest(u64::MAX >> 1),
        parent: Some(ExecutionId::from_parts(START, Route(3), 9)),
        depth: 8,
    }
}

pub fn ended_flow(id: FlowId, remove_at: Ms) -> Flow {
    let live = FlowLive {
        tags: Tags::default(),
        revision: 3,
        sealed: true,
        nodes: 0,
        edges: 0,
        summary: Summary::default(),
        held: 0,
        open_nodes: 0,
        short_groups: 0,
        passing: 0,
        failures: 0,
        waits: false,
        children: 0,
        moving_children: 0,
        cancel: None,
        walk: None,
        names_kept: false,
        keep_until: 0,
        end: Some(FlowEnd { state: FlowState::Completed, at: START, remove_at: Some(remove_at) }),
        changed_at: START,
    };
    Flow { id, spec: Arc::new(flow_spec()), live }
}

pub fn edge(key: EdgeKey, flow: FlowId, number: u64) -> Edge {
    Edge {
        key,
        flow,
        number,
        on: On::Success,
        field: None,
        counted: None,
        needed: true,
        passes: false,
        created_at: START,
        created_by: odd(),
    }
}

/// An edge as it changes in its life.
pub fn edges(key: EdgeKey, flow: FlowId, number: u64) -> Vec<Edge> {
    let full =
        Edge { on: On::Failure, field: Some("left_1".parse().expect("a field")), ..edge(key, flow, number) };
    let counted =
        Ending::ALL.iter().map(|it| Edge { counted: Some(*it), needed: false, passes: true, ..full.clone() });
    [full.clone()].into_iter().chain(counted.collect::<Vec<_>>()).collect()
}
