//! What must hold of every graph after every commit.

use std::collections::{BTreeMap, BTreeSet};

use super::model::Model;
use crate::execution::{Execution, State};
use crate::flow::{ChildState, Edge, EdgeState, Ending, Flow, Group, GroupState, Standing, Summary, Way};
use crate::id::{ExecutionId, FlowId};
use crate::state::Reason;

/// The parts of one flow, ready to be looked up.
#[derive(Default)]
struct Parts<'a> {
    members: BTreeMap<ExecutionId, &'a Execution>,
    edges: Vec<&'a Edge>,
    down: BTreeMap<ExecutionId, Vec<&'a Edge>>,
    up: BTreeMap<ExecutionId, Vec<&'a Edge>>,
}

impl<'a> Parts<'a> {
    fn down(&self, id: ExecutionId) -> impl Iterator<Item = &&'a Edge> {
        self.down.get(&id).into_iter().flatten()
    }

    fn up(&self, id: ExecutionId) -> impl Iterator<Item = &&'a Edge> {
        self.up.get(&id).into_iter().flatten()
    }
}

pub(super) fn check(store: &Model) {
    let mut parts = BTreeMap::<FlowId, Parts<'_>>::new();
    for it in store.executions.values() {
        if let Some(flow) = it.flow() {
            parts.entry(flow).or_default().members.insert(it.id, it);
        }
    }
    for edge in store.edges.values() {
        let parts = parts.entry(edge.flow).or_default();
        parts.edges.push(edge);
        parts.down.entry(edge.key.upstream).or_default().push(edge);
        parts.up.entry(edge.key.downstream).or_default().push(edge);
    }
    for flow in store.flows.values() {
        check_flow(store, flow, &parts.remove(&flow.id).unwrap_or_default());
    }
    for it in store.executions.values() {
        assert_eq!(it.live.node.is_some(), it.flow().is_some());
        let flow = it.flow();
        assert!(flow.is_none_or(|flow| store.flows.contains_key(&flow)), "a member outlives its flow");
    }
    for edge in store.edges.values() {
        assert!(store.executions.contains_key(&edge.key.upstream), "an edge outlives its upstream");
    }
}

fn check_flow(store: &Model, flow: &Flow, parts: &Parts<'_>) {
    let Parts { members, edges, .. } = parts;
    let live = &flow.live;
    if live.nodes != members.len() as u64 {
        let removing =
            live.end.as_ref().is_some_and(|end| end.remove_at.is_none_or(|at| at <= store.header.now));
        assert!(removing, "{} members of {} nodes", members.len(), live.nodes);
        return;
    }
    assert_eq!(edges.len() as u64, live.edges);
    let numbers: BTreeSet<u64> = edges.iter().map(|edge| edge.number).collect();
    assert_eq!(numbers, (1..=live.edges).collect());
    let nodes = || members.values().filter_map(|it| it.node());
    let mut summary = Summary::default();
    members.values().for_each(|it| summary.add(Standing::of(it).state));
    assert_eq!(live.summary, summary, "the summary equals a recount");
    let held = members.values().filter(|it| matches!(it.live.state, State::Held { .. })).count();
    assert_eq!(live.held, held as u64);
    assert_eq!(live.open_nodes, nodes().filter(|node| node.open).count() as u64);
    assert_eq!(live.short_groups, nodes().filter(|node| node.open && node.group.is_short()).count() as u64);
    assert_eq!(live.passing, nodes().filter(|node| node.passing.is_some()).count() as u64);
    assert_eq!(live.failures, nodes().filter(|node| node.failure).count() as u64);
    let children =
        |is: fn(&ChildState) -> bool| nodes().filter_map(|node| node.child).filter(is).count() as u64;
    assert_eq!(live.children, children(|it| it.is_open()));
    assert_eq!(live.moving_children, children(|it| *it == ChildState::Moves));
    members.values().for_each(|it| check_child(store, it));
    members.values().for_each(|it| check_counters(it, parts));
    check_order(parts);
    assert_eq!(live.end.is_some(), flow.is_over(), "a flow has ended when nothing is left to happen in it");
    if let Some(end) = &live.end {
        assert_eq!(end.state, flow.outcome());
        assert_eq!(live.summary.live(), 0, "an ended flow has no live member");
    }
    if live.passing == 0 && live.walk.is_none() {
        members.values().for_each(|it| check_settled(flow, it, parts));
    }
}

/// A node and the flow it stands for agree.
fn check_child(store: &Model, member: &Execution) {
    let Some(id) = member.child_flow() else {
        assert_eq!(member.node().unwrap().child, None);
        return;
    };
    // It is removed before its node.
    let Some(child) = store.flows.get(&id) else { return };
    assert_eq!(child.spec.parent, Some(member.id));
    assert_eq!(member.node().unwrap().child, Some(child.child_state()));
    let begun = member.reason() == Reason::ChildFlow;
    let open = child.child_state().is_open();
    assert!(open || !begun, "a node ends with its child flow");
    assert!(!open || begun || child.live.cancel.is_some(), "a child flow runs with its node");
    let cancelled = child.live.cancel.is_some() || child.live.end.is_some();
    assert!(member.end().is_none() || cancelled, "a child flow ends with its node");
}

/// Counters equal a recount of what the edges say.
fn check_counters(member: &Execution, parts: &Parts<'_>) {
    let Some(node) = member.node() else { return };
    let mut group = Group { state: node.group.state, ..Group::new(node.group.join) };
    for edge in parts.up(member.id) {
        group.total += 1;
        group.named += u32::from(edge.field.is_some());
        edge.counted.into_iter().for_each(|ending| group.count(ending, edge.state(), Way::In));
    }
    assert_eq!(node.group, group, "group counters equal a recount");
    let out = || parts.down(member.id);
    assert_eq!(node.dependents as usize, out().count());
    assert_eq!(node.needed as usize, out().filter(|edge| edge.needed).count());
}

/// Levels never fall along an edge, and there is no cycle.
fn check_order(parts: &Parts<'_>) {
    let Parts { members, edges, .. } = parts;
    let level = |id: &ExecutionId| members[id].node().unwrap().level;
    let mut inbound: BTreeMap<ExecutionId, usize> = members.keys().map(|id| (*id, 0)).collect();
    for edge in edges {
        assert!(level(&edge.key.upstream) <= level(&edge.key.downstream));
        *inbound.get_mut(&edge.key.downstream).unwrap() += 1;
    }
    let mut free: Vec<ExecutionId> = inbound.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
    let mut seen = 0;
    while let Some(id) = free.pop() {
        seen += 1;
        for edge in parts.down(id) {
            let left = inbound.get_mut(&edge.key.downstream).unwrap();
            *left -= 1;
            if *left == 0 {
                free.push(edge.key.downstream);
            }
        }
    }
    assert_eq!(seen, members.len(), "a flow has no cycle");
}

/// What holds of a member when nothing is being passed on in its flow.
fn check_settled(flow: &Flow, member: &Execution, parts: &Parts<'_>) {
    let members = &parts.members;
    let node = member.node().unwrap();
    let waits = |it: &Execution| it.end().is_none() && it.node().unwrap().group.state == GroupState::Waiting;
    for edge in parts.down(member.id) {
        let downstream = members[&edge.key.downstream];
        assert_eq!(edge.counted, member.end().map(Ending::of), "an ending is counted by every dependent");
        assert_eq!(edge.needed, member.end().is_none() && waits(downstream));
        let group = &downstream.node().unwrap().group;
        let decided = matches!(group.state, GroupState::Satisfied | GroupState::Impossible);
        let dropped = decided && group.join.cancels() && node.needed == 0;
        assert!(!dropped || member.end().is_some(), "what no join needs any more is cancelled");
    }
    let blocked = member.reason() == Reason::WaitingForDependencies;
    let held = matches!(member.live.state, State::Held { .. });
    assert!(!blocked || waits(member), "a node is ready if its group is satisfied");
    assert!(blocked || held || !waits(member), "a node is ready only if its group is satisfied");
    if waits(member) && !node.open && !flow.cancels_members() && !flow.live.waits {
        assert_eq!(node.group.verdict(), GroupState::Waiting, "a group that can be decided is");
    }
    let absorbed = parts.down(member.id).any(|edge| {
        let group = &members[&edge.key.downstream].node().unwrap().group;
        edge.state() == EdgeState::Lost && group.state == GroupState::Satisfied && group.join.absorbs()
    });
    let failed = member.end().is_some_and(|end| Ending::of(end) == Ending::Failure);
    assert_eq!(node.failure, failed && !absorbed && !node.absorbed, "a failure is absorbed or the flow's");
    assert!(!(failed && absorbed) || node.absorbed);
}
