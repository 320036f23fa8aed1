//! Counts a graph again: everything that the records of a flow, its members and its edges say of each other.
//!
//! Rules keep these figures as they go along; this says independently of them what the figures must be. Most hold
//! after every commit. What follows from an edge holds unless one of its ends still has news to pass along it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{
    ChildState, Edge, EdgeState, Ending, Flow, FlowEnd, Group, GroupState, Node, Standing, Summary, Way,
};
use crate::Ms;
use crate::execution::{Execution, State};
use crate::id::ExecutionId;
use crate::state::{PublicState, Reason};

/// One flow with everything that belongs to it.
#[derive(Debug)]
pub struct Graph<'a> {
    flow: &'a Flow,
    members: FxHashMap<ExecutionId, &'a Execution>,
    edges: Vec<&'a Edge>,
    down: FxHashMap<ExecutionId, Vec<&'a Edge>>,
    up: FxHashMap<ExecutionId, Vec<&'a Edge>>,
}

/// What is wrong, in words.
type Problems = Vec<String>;

/// Whether it is being removed, with so many of its members left. A child flow leaves when the flow around it does.
pub fn is_leaving(flow: &Flow, members: usize, now: Ms) -> bool {
    let old = |end: &FlowEnd| end.remove_at.is_none_or(|at| at <= now);
    flow.live.end.as_ref().is_some_and(old) && (members as u64) < flow.live.nodes
}

impl<'a> Graph<'a> {
    pub fn new(
        flow: &'a Flow,
        members: impl IntoIterator<Item = &'a Execution>,
        edges: impl IntoIterator<Item = &'a Edge>,
    ) -> Graph<'a> {
        let members = members.into_iter().map(|it| (it.id, it)).collect();
        let edges: Vec<&Edge> = edges.into_iter().collect();
        let (mut down, mut up) = (FxHashMap::default(), FxHashMap::default());
        for edge in &edges {
            down.entry(edge.key.upstream).or_insert_with(Vec::new).push(*edge);
            up.entry(edge.key.downstream).or_insert_with(Vec::new).push(*edge);
        }
        Graph { flow, members, edges, down, up }
    }

    /// Everything that does not agree. `now` is the time of the newest commit.
    pub fn problems(&self, now: Ms) -> Problems {
        let mut problems = Vec::new();
        if is_leaving(self.flow, self.members.len(), now) {
            return problems;
        }
        self.check_parts(&mut problems);
        if problems.is_empty() {
            self.check_flow(&mut problems);
            self.check_order(&mut problems);
            self.members.values().for_each(|member| self.check_member(member, &mut problems));
            self.edges.iter().for_each(|edge| self.check_edge(edge, &mut problems));
        }
        problems.iter_mut().for_each(|problem| *problem = format!("flow {}: {problem}", self.flow.id));
        problems
    }

    fn down(&self, id: ExecutionId) -> &[&'a Edge] {
        self.down.get(&id).map_or(&[], Vec::as_slice)
    }

    fn up(&self, id: ExecutionId) -> &[&'a Edge] {
        self.up.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Nodes and edges are there, numbered from 1 without gaps, and both ends of each edge are members.
    fn check_parts(&self, problems: &mut Problems) {
        let live = &self.flow.live;
        let (mut nodes, mut edges) = (BTreeSet::new(), BTreeSet::new());
        for (id, it) in &self.members {
            if it.flow() != Some(self.flow.id) || it.node().is_none() {
                problems.push(format!("{id} is listed as a member but is none"));
            }
            nodes.extend(it.spec.member.as_ref().map(|member| member.number));
        }
        for edge in &self.edges {
            if edge.flow != self.flow.id {
                problems.push(format!("edge {} is listed but belongs to {}", edge.number, edge.flow));
            }
            for id in [edge.key.upstream, edge.key.downstream] {
                if !self.members.contains_key(&id) {
                    problems.push(format!("edge {} has an end {id} that is no member", edge.number));
                }
            }
            edges.insert(edge.number);
        }
        for (what, there, count) in [("nodes", nodes, live.nodes), ("edges", edges, live.edges)] {
            if !there.iter().copied().eq(1..=count) {
                problems.push(format!("it says that it has {count} {what}, there are {}", there.len()));
            }
        }
    }

    /// The flow's own counters and its end.
    fn check_flow(&self, problems: &mut Problems) {
        let live = &self.flow.live;
        let nodes = || self.members.values().filter_map(|it| it.node());
        let mut summary = Summary::default();
        self.members.values().for_each(|it| summary.add(Standing::of(it).state));
        if live.summary != summary {
            problems.push(format!("its summary is {:?}, its members are {summary:?}", live.summary));
        }
        let held = self.members.values().filter(|it| Standing::of(it).held).count();
        let short = |node: &&Node| node.open && node.group.is_short();
        let children =
            |fits: &dyn Fn(ChildState) -> bool| nodes().filter(|node| node.child.is_some_and(fits)).count();
        let counters = [
            ("held members", live.held, held),
            ("open nodes", live.open_nodes, nodes().filter(|node| node.open).count()),
            ("groups with too few edges", live.short_groups, nodes().filter(short).count()),
            ("members passing news on", live.passing, nodes().filter(|it| it.passing.is_some()).count()),
            ("failures", live.failures, nodes().filter(|node| node.failure).count()),
            ("child flows that run", live.children, children(&|it| it.is_open())),
            ("child flows that move", live.moving_children, children(&|it| it == ChildState::Moves)),
        ];
        for (what, said, counted) in counters {
            if said != counted as u64 {
                problems.push(format!("it counts {said} {what}, there are {counted}"));
            }
        }
        let rests = live.passing == 0 && live.walk.is_none() && live.children == 0;
        let over = live.sealed && !live.waits && summary.live() == 0 && rests;
        if live.end.is_some() != over {
            problems.push(format!("it has ended: {}, everything in it is over: {over}", live.end.is_some()));
        }
        if live.cancel.is_some() && !live.sealed {
            problems.push("it is cancelled and yet takes nodes".to_owned());
        }
        let Some(end) = &live.end else { return };
        if end.state != self.flow.outcome() {
            problems.push(format!("it ended as {}, its members make it {}", end.state, self.flow.outcome()));
        }
        let last = self.members.values().filter_map(|it| it.end()).map(|end| end.remove_at).max();
        if end.remove_at.is_some() && last > end.remove_at {
            problems
                .push(format!("it leaves at {:?}, before a member that stays until {last:?}", end.remove_at));
        }
    }

    /// Levels do not fall along an edge, and no way leads back.
    fn check_order(&self, problems: &mut Problems) {
        let level = |id: &ExecutionId| self.members[id].node().map_or(0, |node| node.level);
        let mut inbound: FxHashMap<ExecutionId, usize> = self.members.keys().map(|id| (*id, 0)).collect();
        for edge in &self.edges {
            if level(&edge.key.upstream) > level(&edge.key.downstream) {
                problems.push(format!("the level falls along edge {}", edge.number));
            }
            *inbound.entry(edge.key.downstream).or_default() += 1;
        }
        // A spare comes after the one it is for, like after an upstream.
        let spare = |id: &ExecutionId| self.members[id].spec.member.as_ref().and_then(|it| it.spare);
        for id in self.members.keys().filter_map(spare) {
            *inbound.entry(id).or_default() += 1;
        }
        let mut free: Vec<ExecutionId> = Vec::new();
        free.extend(inbound.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id));
        let mut seen = 0;
        while let Some(id) = free.pop() {
            seen += 1;
            let after = self.down(id).iter().map(|edge| edge.key.downstream).chain(spare(&id));
            for id in after {
                let left = inbound.entry(id).or_default();
                *left -= 1;
                if *left == 0 {
                    free.push(id);
                }
            }
        }
        if seen != self.members.len() {
            problems.push("it has a cycle".to_owned());
        }
    }

    fn check_member(&self, member: &Execution, problems: &mut Problems) {
        let Some(node) = member.node() else { return };
        let id = member.id;
        let mut group = Group { state: node.group.state, ..Group::new(node.group.join) };
        for edge in self.up(id) {
            group.total += 1;
            group.named += u32::from(edge.field.is_some());
            edge.counted.into_iter().for_each(|ending| group.count(ending, edge.state(), Way::In));
        }
        if node.group != group {
            problems.push(format!("the group of {id} is {:?}, its edges make it {group:?}", node.group));
        }
        let needed = self.down(id).iter().filter(|edge| edge.needed).count();
        if (node.dependents as usize, node.needed as usize) != (self.down(id).len(), needed) {
            problems.push(format!(
                "{id} counts {} dependents, {} of them in need of it; there are {} and {needed}",
                node.dependents,
                node.needed,
                self.down(id).len()
            ));
        }
        if let Some(problem) = self.misplaced(member, node) {
            problems.push(format!("{id} {problem}: {} {:?}", member.reason(), node));
        }
        self.check_failure(member, node, problems);
    }

    /// What does not fit between a member's state and its group.
    fn misplaced(&self, member: &Execution, node: &Node) -> Option<&'static str> {
        let live = &self.flow.live;
        let number = member.spec.member.as_ref().map_or(0, |it| it.number);
        let visited = live.walk.is_none_or(|walk| walk.after >= number);
        let (group, ended) = (&node.group, member.end().is_some());
        let satisfied = group.state == GroupState::Satisfied;
        let skipped = member.public_state() == PublicState::Skipped;
        if node.open && live.sealed && visited {
            return Some("is open in a sealed flow");
        }
        if node.open && group.state != GroupState::Waiting {
            return Some("is open but decided");
        }
        if member.live.attempt.is_some() && !satisfied {
            return Some("has started although its group is not satisfied");
        }
        if skipped != (group.state == GroupState::Impossible) {
            return Some("is skipped although its group is possible, or the other way round");
        }
        if skipped && group.verdict() != GroupState::Impossible {
            return Some("stays skipped although its group is possible again");
        }
        if !ended && self.flow.cancels(member) && visited && live.walk.is_none() {
            return Some("lives on in a cancelled flow");
        }
        let decidable = visited && !ended && !node.open && !live.waits && !self.flow.cancels_members();
        if decidable && group.state == GroupState::Waiting && group.verdict() != GroupState::Waiting {
            return Some("has a group that could be decided and is not");
        }
        let unwanted = node.unwanted.is_some() && node.needed == 0;
        if !ended && unwanted && self.is_settled(member) {
            return Some("lives on although nothing needs it");
        }
        let fits = match &member.live.state {
            State::Ready { .. } | State::Delayed { .. } | State::Active(_) | State::Suspended(_) => satisfied,
            State::Blocked { reason: Reason::Hedge } => {
                satisfied && (node.hedge_until.is_none() || self.flow.cancels(member))
            }
            State::Blocked { reason: Reason::ChildFlow } => satisfied,
            State::Blocked { reason: Reason::WaitingForDependencies } => group.state == GroupState::Waiting,
            State::Blocked { .. } | State::Held { .. } | State::Ended(_) => true,
        };
        (!fits).then_some("is where its group does not put it")
    }

    /// Whether neither the member nor what depends on it has news to pass along the edges between them.
    fn is_settled(&self, member: &Execution) -> bool {
        self.down(member.id).iter().all(|edge| !self.is_underway(edge))
    }

    fn is_underway(&self, edge: &Edge) -> bool {
        let passing = |id: &ExecutionId| self.members[id].node().and_then(|node| node.passing);
        let ahead = |after: Option<u64>| after.is_some_and(|after| after < edge.number);
        ahead(passing(&edge.key.upstream).and_then(|it| it.down))
            || ahead(passing(&edge.key.downstream).and_then(|it| it.up))
    }

    /// A failure is absorbed by a join that was satisfied without it, or it is the flow's.
    fn check_failure(&self, member: &Execution, node: &Node, problems: &mut Problems) {
        let id = member.id;
        let failed = member.end().is_some_and(|end| Ending::of(end) == Ending::Failure);
        if node.failure != (failed && !node.absorbed) {
            problems.push(format!(
                "{id} has failed: {failed}, absorbed: {}, and counts as a failure: {}",
                node.absorbed, node.failure
            ));
        }
        let absorbs = |edge: &&&Edge| {
            let group = self.members[&edge.key.downstream].node().map(|node| &node.group);
            group.is_some_and(|group| group.state == GroupState::Satisfied && group.join.absorbs())
        };
        let lost = |edge: &&&Edge| edge.state() == EdgeState::Lost && !self.is_underway(edge);
        let absorbed = self.down(id).iter().filter(absorbs).any(|edge| lost(&edge));
        if failed && absorbed && !node.absorbed {
            problems.push(format!("{id} has failed and the join that does without it has not absorbed that"));
        }
        if node.absorbed && !self.down(id).iter().any(|edge| absorbs(&edge)) {
            problems.push(format!("{id} is absorbed and no join does without it"));
        }
    }

    /// An edge says what its ends are, and a loser is told.
    fn check_edge(&self, edge: &Edge, problems: &mut Problems) {
        if self.is_underway(edge) {
            return;
        }
        let (upstream, downstream) = (self.members[&edge.key.upstream], self.members[&edge.key.downstream]);
        let counted = upstream.end().map(Ending::of);
        if edge.counted != counted {
            problems.push(format!(
                "edge {} has counted {:?}, its upstream {} is {:?}",
                edge.number, edge.counted, upstream.id, counted
            ));
        }
        let group = downstream.node().map(|node| &node.group);
        let undecided =
            downstream.end().is_none() && group.is_some_and(|group| group.state == GroupState::Waiting);
        let needed = upstream.end().is_none() && undecided;
        if edge.needed != needed {
            problems.push(format!(
                "edge {} says that {} is needed: {}, it is: {needed}",
                edge.number, upstream.id, edge.needed
            ));
        }
        let given = edge.state() == EdgeState::Satisfied;
        let satisfied = group.is_some_and(|group| group.state == GroupState::Satisfied);
        if !satisfied && edge.passes != given {
            problems.push(format!(
                "edge {} passes a result: {}, it is satisfied: {given}",
                edge.number, edge.passes
            ));
        }
        // Whoever runs a loser again means it.
        let first = upstream.end().is_none() && upstream.live.series.number == 1;
        let told = upstream.node().is_some_and(|node| node.unwanted.is_some());
        if first && drops_upstreams(downstream) && !told {
            problems.push(format!("{} is not told that {} does without it", upstream.id, downstream.id));
        }
    }
}

/// Whether a member does not want those of its upstreams any more that have not ended.
fn drops_upstreams(member: &Execution) -> bool {
    let lost = [Reason::SiblingQuorumSatisfied, Reason::SiblingQuorumImpossible];
    let loser = member.end().is_some_and(|end| lost.contains(&end.reason));
    let group = member.node().map(|node| &node.group);
    loser || group.is_some_and(|group| group.join.cancels() && group.state != GroupState::Waiting)
}

/// What does not agree between a node and the flow it stands for; nothing if it stands for none. A child flow is
/// removed before its node.
pub fn child_problem(member: &Execution, child: Option<&Flow>) -> Option<String> {
    let node = member.node()?;
    let id = member.id;
    let Some(named) = member.child_flow() else {
        return node.child.map(|state| format!("{id} counts a child flow that is {state} and has none"));
    };
    let child = child?;
    if child.spec.parent != Some(id) {
        return Some(format!("{id} stands for flow {named}, whose node is {:?}", child.spec.parent));
    }
    let state = child.child_state();
    if node.child != Some(state) {
        return Some(format!("{id} counts its child flow as {:?}, it is {state}", node.child));
    }
    let begun = member.reason() == Reason::ChildFlow;
    let cancelled = child.live.cancel.is_some();
    if !state.is_open() && begun {
        return Some(format!("{id} waits for its child flow, which is {state}"));
    }
    if state.is_open() && !begun && !cancelled {
        return Some(format!("the child flow of {id} runs without its node: {:?}", member.live.state));
    }
    let over = cancelled || child.live.end.is_some();
    (member.end().is_some() && !over).then(|| format!("{id} has ended and its child flow has not"))
}
