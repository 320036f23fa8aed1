//! What follows in a graph when a member moves: edges are counted, groups decided, losers cancelled, skips passed
//! on, and the flow's own counters kept.
//!
//! Every command ends here, so that no way of ending a member can forget its dependents. The work of one command
//! is bounded: what is left is noted in the members it is left at, and the agenda goes on with it. An edge knows
//! how it has been counted, so visiting it again changes nothing.

use std::collections::BTreeSet;

use super::child;
use super::group::{
    admit, edit_node, is_loser, is_undecided, reopen, skip, unwanted_upstreams, withdraw_loser,
};
use super::tasks::{News, Task, Tasks};
use super::walk::walk_step;
use crate::Ms;
use crate::commands::start_child::tell_parent;
use crate::event::Fact;
use crate::execution::{Execution, State};
use crate::flow::{
    ChildState, EdgeKey, EdgeState, Ending, Flow, FlowEnd, GroupState, ListKey, Passing, Standing, Way,
};
use crate::id::{ExecutionId, FlowId};
use crate::key::Ask;
use crate::state::Reason;
use crate::workspace::{Moved, Stop, Todo, Workspace};

/// How many child flows that begin or are cancelled are visited in the same commit.
const WALKS: usize = 4;
/// How many neighbours are looked for at once where they are not in memory.
const LOOK_AHEAD: usize = 1_000;
/// What is few to be read at once, and after how many visits the agenda goes on instead of reading so few.
const FEW: usize = 8;
const VISITS_WITH_FEW: usize = 32;
/// How many members that were added next are read with one that is missing.
const NEAR: usize = 256;

pub(in crate::commands) fn settle(ws: &mut Workspace, now: Ms) -> Result<(), Stop> {
    if ws.todo().next().is_none() {
        return Ok(());
    }
    know_flows(ws)?;
    let (tasks, flows) = (Tasks::default(), BTreeSet::new());
    // There is a little more room than losers, for the winners among them and for what the losers tell their join.
    let up_left = ws.limits.cascade_edges_max.max(1) * 6 / 5;
    let down_left = up_left;
    Settling { ws, now, tasks, flows, down_left, up_left, visited: 0, walks_left: WALKS }.run()
}

/// Asks for the flows of all members that have moved at once.
fn know_flows(ws: &Workspace) -> Result<(), Stop> {
    let flows: BTreeSet<FlowId> = ws
        .todo()
        .filter_map(|todo| match todo {
            Todo::Moved(moved) => moved.after.flow(),
            _ => None,
        })
        .collect();
    let asks = flows.into_iter().filter_map(|id| match ws.flow(id) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let asks: Vec<_> = asks.flatten().collect();
    if asks.is_empty() { Ok(()) } else { Err(Stop::Need(asks)) }
}

struct Settling<'a> {
    ws: &'a mut Workspace,
    now: Ms,
    tasks: Tasks,
    flows: BTreeSet<FlowId>,
    down_left: usize,
    up_left: usize,
    /// How many edges have been visited.
    visited: usize,
    /// How many child flows may be visited at once; the agenda visits the others.
    walks_left: usize,
}

impl Settling<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        loop {
            if let Some(todo) = self.ws.next_todo() {
                self.follow(todo)?;
                continue;
            }
            if self.serve_one()? {
                continue;
            }
            for task in self.tasks.take() {
                self.leave(task)?;
            }
            if let Some(id) = self.flows.pop_first() {
                self.close_or_reopen(id)?;
                self.tell_around(id)?;
            } else {
                return Ok(());
            }
        }
    }

    fn follow(&mut self, todo: Todo) -> Result<(), Stop> {
        match todo {
            Todo::Moved(moved) => self.moved(&moved),
            Todo::Look(id) => self.look(id, None),
            Todo::Pass(id) => self.take_up(id),
            Todo::ChildEnded(id) => tell_parent(self.ws, self.now, id),
            Todo::Flow(id) => {
                self.flows.insert(id);
                Ok(())
            }
        }
    }

    // ---- members ---------------------------------------------------------------------------------------

    fn moved(&mut self, moved: &Moved) -> Result<(), Stop> {
        let Some(id) = moved.after.flow() else { return Ok(()) };
        let mut flow = (**self.ws.require_flow(id)?).clone();
        let before = moved.before.as_deref().map(Standing::of);
        let after = Standing::of(&moved.after);
        if let Some(before) = before {
            flow.live.summary.remove(before.state);
            flow.live.held -= u64::from(before.held);
        }
        flow.live.summary.add(after.state);
        flow.live.held += u64::from(after.held);
        let was_over = before.is_some_and(|it| it.state.is_terminal());
        match (was_over, after.state.is_terminal()) {
            (false, true) => self.ended(&mut flow, moved.id)?,
            (true, false) => self.runs_again(&mut flow, moved.id)?,
            _ => {}
        }
        self.ws.put_flow(flow, self.now);
        self.flows.insert(id);
        if let Some(child) = moved.after.child_flow() {
            self.serve_child(child, moved)?;
        }
        self.serve_spare(moved)
    }

    /// A child flow begins, runs again or is cancelled with its node.
    fn serve_child(&mut self, child: FlowId, moved: &Moved) -> Result<(), Stop> {
        // The node may have moved on since.
        let node = self.ws.require(moved.id)?.clone();
        if child::follow(self.ws, self.now, child, moved.before.as_deref(), &node)? {
            // Told before anybody looks whether the flow around it is over.
            self.tell_around(child)?;
            if self.walks_left > 0 {
                self.walks_left -= 1;
                walk_step(self.ws, self.now, child)?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, flow: &mut Flow, id: ExecutionId) -> Result<(), Stop> {
        let mut member = (**self.ws.require(id)?).clone();
        let (Some(end), Some(node)) = (member.end().cloned(), member.live.node.as_deref_mut()) else {
            return Ok(());
        };
        flow.live.keep_until = flow.live.keep_until.max(end.remove_at);
        let dependents = node.dependents > 0;
        let undecided = node.group.state == GroupState::Waiting;
        let upstreams = node.group.pending() > 0 && (undecided || is_loser(end.reason));
        if Ending::of(&end) == Ending::Failure && !node.absorbed {
            node.failure = true;
            flow.live.failures += 1;
            self.ws.put_execution(member, self.now);
        }
        self.tasks.add(Task { id, down: dependents.then_some(0), up: upstreams.then_some(0) });
        Ok(())
    }

    fn runs_again(&mut self, flow: &mut Flow, id: ExecutionId) -> Result<(), Stop> {
        let mut member = (**self.ws.require(id)?).clone();
        let Some(node) = member.live.node.as_deref_mut() else { return Ok(()) };
        let dependents = node.dependents > 0;
        let upstreams = node.group.pending() > 0 && node.group.state == GroupState::Waiting;
        node.unwanted = None;
        if std::mem::take(&mut node.failure) {
            flow.live.failures -= 1;
        }
        self.ws.put_execution(member, self.now);
        self.tasks.add(Task { id, down: dependents.then_some(0), up: upstreams.then_some(0) });
        Ok(())
    }

    /// A spare starts some time after the one before it has, or when that one ended without success.
    fn serve_spare(&mut self, moved: &Moved) -> Result<(), Stop> {
        let Some(spare) = moved.after.spec.member.as_ref().and_then(|member| member.spare) else {
            return Ok(());
        };
        let started = |it: &Execution| it.live.attempt.is_some() || it.reason() == Reason::ChildFlow;
        let starts = started(&moved.after) && !moved.before.as_deref().is_some_and(started);
        let gave_up = moved.after.end().is_some_and(|end| Ending::of(end) != Ending::Success);
        if !starts && !gave_up {
            return Ok(());
        }
        let mut execution = (**self.ws.require(spare)?).clone();
        let delay = execution.spec.member.as_ref().and_then(|member| member.hedge);
        let until = match delay {
            Some(hedge) if !gave_up => self.now.saturating_add(hedge.delay_ms),
            _ => self.now,
        };
        let waits = execution.reason() == Reason::Hedge;
        let Some(flow) = moved.after.flow() else { return Ok(()) };
        let cancelled = self.ws.require_flow(flow)?.cancels(&execution);
        edit_node(&mut execution, |node| {
            node.hedge_until = Some(node.hedge_until.map_or(until, |known| known.min(until)));
        });
        if waits && !cancelled {
            admit(self.ws, &mut execution, self.now);
        }
        self.ws.put_execution(execution, self.now);
        Ok(())
    }

    // ---- groups ----------------------------------------------------------------------------------------

    /// Decides a group if its counters allow it. `upstream` is the one whose ending was counted last.
    fn look(&mut self, id: ExecutionId, upstream: Option<ExecutionId>) -> Result<(), Stop> {
        let mut member = (**self.ws.require(id)?).clone();
        let Some(flow_id) = member.flow() else { return Ok(()) };
        let flow = self.ws.require_flow(flow_id)?.clone();
        let lives = member.end().is_none();
        let Some(node) = member.live.node.as_deref_mut() else { return Ok(()) };
        if node.open && flow.live.sealed {
            node.open = false;
            let mut flow = (*flow).clone();
            flow.live.open_nodes -= 1;
            // Only a flow that was cancelled is closed with a group that has too few edges.
            flow.live.short_groups -= u64::from(node.group.is_short());
            self.ws.put_flow(flow, self.now);
            self.ws.put_execution(member.clone(), self.now);
        }
        let Some(node) = member.live.node.as_deref_mut() else { return Ok(()) };
        // A flow that is being cancelled starts nothing and skips nothing: what has not ended is cancelled.
        if !lives
            || node.open
            || flow.live.waits
            || flow.cancels_members()
            || node.group.state != GroupState::Waiting
        {
            return Ok(());
        }
        let verdict = node.group.verdict();
        node.group.state = verdict;
        let left = node.group.pending() > 0;
        let up = match verdict {
            GroupState::Waiting => return Ok(()),
            GroupState::Satisfied => {
                let up = node.group.join.absorbs() && (left || node.group.failed > 0);
                if !matches!(member.live.state, State::Held { .. }) {
                    admit(self.ws, &mut member, self.now);
                }
                up
            }
            GroupState::Impossible => {
                skip(self.ws, &mut member, self.now, upstream);
                left
            }
        };
        self.ws.put_execution(member, self.now);
        self.tasks.add(Task { id, down: None, up: up.then_some(0) });
        Ok(())
    }

    /// Brings an edge up to date with both its ends, and does what follows from that.
    fn sync(&mut self, key: EdgeKey, news: News) -> Result<(), Stop> {
        let Some(edge) = self.ws.edge(key)?.cloned() else { return Ok(()) };
        let mut upstream = (**self.ws.require(key.upstream)?).clone();
        let mut downstream = (**self.ws.require(key.downstream)?).clone();
        let counted = upstream.end().map(Ending::of);
        let needed = upstream.end().is_none() && is_undecided(&downstream);
        let mut after = (*edge).clone();
        (after.counted, after.needed) = (counted, needed);
        // What a satisfied group was given stays given, also while an upstream runs again. Any other may be
        // satisfied later, also that of a member which has ended and runs again.
        if downstream.node().is_none_or(|node| node.group.state != GroupState::Satisfied) {
            after.passes = after.state() == EdgeState::Satisfied;
        }
        if edge.counted != counted {
            edit_node(&mut downstream, |node| {
                let group = &mut node.group;
                edge.counted.into_iter().for_each(|it| group.count(it, edge.state(), Way::Out));
                counted.into_iter().for_each(|it| group.count(it, after.state(), Way::In));
            });
            let skipped = downstream.node().is_some_and(|node| node.group.state == GroupState::Impossible);
            if skipped && downstream.node().is_some_and(|it| it.group.verdict() != GroupState::Impossible) {
                reopen(self.ws, &mut downstream, self.now);
            }
            self.ws.put_execution(downstream.clone(), self.now);
        }
        if edge.needed != needed {
            edit_node(&mut upstream, |node| {
                node.needed = if needed { node.needed + 1 } else { node.needed - 1 };
            });
            self.ws.put_execution(upstream.clone(), self.now);
        }
        if *edge != after {
            self.ws.put_edge(after.clone());
        }
        if edge.counted != counted && is_undecided(&downstream) {
            self.look(key.downstream, Some(key.upstream))?;
        }
        match upstream.end() {
            None => self.drop_if_unwanted(upstream, &downstream, news),
            Some(_) if after.state() == EdgeState::Lost && counted == Some(Ending::Failure) => {
                self.absorb(upstream, &downstream)
            }
            Some(_) => Ok(()),
        }
    }

    /// Cancels an upstream that a join does not need and no other group waits for.
    fn drop_if_unwanted(
        &mut self,
        mut upstream: Execution,
        downstream: &Execution,
        news: News,
    ) -> Result<(), Stop> {
        let unused = || {
            // A spare that has not started is for its join alone.
            let spare = upstream.spec.member.as_ref().is_some_and(|member| member.hedge.is_some());
            let unused = spare && upstream.live.attempt.is_none() && !is_undecided(downstream);
            unused.then_some(Reason::SiblingQuorumSatisfied)
        };
        let reason = match news {
            News::Downstreams => unwanted_upstreams(downstream).or_else(unused),
            // It runs although the join was decided before: whoever runs it again means it.
            News::Upstreams => None,
        };
        let Some(node) = upstream.live.node.as_deref_mut() else { return Ok(()) };
        let known = node.unwanted;
        node.unwanted = known.or(reason);
        let (unwanted, needed, id) = (node.unwanted, node.needed, upstream.id);
        if unwanted != known {
            self.ws.put_execution(upstream, self.now);
        }
        match unwanted {
            Some(reason) if needed == 0 => withdraw_loser(self.ws, id, self.now, reason),
            _ => Ok(()),
        }
    }

    /// A join that was satisfied without an upstream makes that one's failure nobody's.
    fn absorb(&mut self, mut upstream: Execution, downstream: &Execution) -> Result<(), Stop> {
        let group = downstream.node().map(|node| &node.group);
        if !group.is_some_and(|group| group.state == GroupState::Satisfied && group.join.absorbs()) {
            return Ok(());
        }
        let Some(flow) = upstream.flow() else { return Ok(()) };
        let Some(node) = upstream.live.node.as_deref_mut().filter(|node| !node.absorbed) else {
            return Ok(());
        };
        node.absorbed = true;
        if std::mem::take(&mut node.failure) {
            let mut flow = (**self.ws.require_flow(flow)?).clone();
            flow.live.failures -= 1;
            self.ws.put_flow(flow, self.now);
        }
        self.ws.put_execution(upstream, self.now);
        Ok(())
    }

    // ---- passing on ------------------------------------------------------------------------------------

    /// Visits an edge of a member whose news is not passed on. Returns whether there was room.
    fn serve_one(&mut self) -> Result<bool, Stop> {
        let Some((news, id, after)) = self.next_task() else { return Ok(false) };
        let list = news.list(id);
        if let Err(stop) = self.look_ahead(news, id, after) {
            // Reading one by one, with everything decided anew each time, is worth it only at the beginning.
            return match stop {
                Stop::Need(asks) if asks.len() < FEW && self.visited > VISITS_WITH_FEW => Ok(false),
                stop => Err(stop),
            };
        }
        let (edges, more) = self.ws.list(list, after, 1)?;
        let next = edges.first().map(|(number, _)| *number).filter(|_| more);
        self.visited += 1;
        match news {
            News::Downstreams => self.up_left -= 1,
            News::Upstreams => self.down_left -= 1,
        }
        self.tasks.go_on(id, news, next);
        for (_, other) in edges {
            let key = match news {
                News::Downstreams => EdgeKey { upstream: other, downstream: id },
                News::Upstreams => EdgeKey { upstream: id, downstream: other },
            };
            self.sync(key, news)?;
        }
        Ok(true)
    }

    /// Joins tell all their upstreams before these tell their dependents: then it is known of all of them at once
    /// what is missing in memory. Otherwise the newest is first.
    fn next_task(&mut self) -> Option<(News, ExecutionId, u64)> {
        let left = [(News::Downstreams, self.up_left), (News::Upstreams, self.down_left)];
        left.into_iter().filter(|(_, left)| *left > 0).find_map(|(news, _)| {
            let (id, after) = self.tasks.newest(news)?;
            Some((news, id, after))
        })
    }

    /// Asks for everything at once that will be visited and is not in memory, instead of for one after the other.
    fn look_ahead(&self, news: News, id: ExecutionId, after: u64) -> Result<(), Stop> {
        let list = news.list(id);
        if self.missing(list, after, 1).is_empty() {
            return Ok(());
        }
        let mut asks = Vec::new();
        if self.ws.list(list, after, 1).is_ok() {
            let left = if news == News::Downstreams { self.up_left } else { self.down_left };
            asks.extend(self.missing(list, after, left.min(LOOK_AHEAD)));
        } else {
            for (id, after) in self.tasks.unfinished(news).take(LOOK_AHEAD) {
                asks.extend(self.missing(news.list(id), after, 1));
            }
        }
        if asks.len() < FEW {
            asks.extend(self.missing_near(news, id));
        }
        Err(Stop::Need(asks))
    }

    /// What is not in memory of the next entries of a list, their edges and the members they lead to.
    fn missing(&self, list: ListKey, after: u64, limit: usize) -> Vec<Ask> {
        let entries = match self.ws.list(list, after, limit) {
            Ok((entries, _)) => entries,
            Err(Stop::Need(asks)) => return asks,
            Err(_) => Vec::new(),
        };
        let mut asks = Vec::new();
        for (_, other) in entries {
            let key = match list {
                ListKey::Downstream(upstream) => EdgeKey { upstream, downstream: other },
                ListKey::Upstream(downstream) => EdgeKey { upstream: other, downstream },
                ListKey::Members(_) => continue,
            };
            for found in [self.ws.execution(other).map(drop), self.ws.edge(key).map(drop)] {
                if let Err(Stop::Need(more)) = found {
                    asks.extend(more);
                }
            }
        }
        asks
    }

    /// The same of the members that were added after this one: what is passed on comes to them soon, because most
    /// graphs are written down in the order in which they run.
    fn missing_near(&self, news: News, id: ExecutionId) -> Vec<Ask> {
        let Ok(Some(member)) = self.ws.execution(id).map(|it| it.and_then(|it| it.spec.member.as_ref()))
        else {
            return Vec::new();
        };
        match self.ws.list(ListKey::Members(member.flow), member.number, NEAR) {
            Ok((near, _)) => near.iter().flat_map(|(_, id)| self.missing(news.list(*id), 0, 1)).collect(),
            Err(Stop::Need(asks)) => asks,
            Err(_) => Vec::new(),
        }
    }

    /// Goes on where an earlier step has stopped.
    fn take_up(&mut self, id: ExecutionId) -> Result<(), Stop> {
        let mut member = (**self.ws.require(id)?).clone();
        let Some(node) = member.live.node.as_deref_mut() else { return Ok(()) };
        let Some(passing) = node.passing.take() else { return Ok(()) };
        self.count_passing(&member, |count| *count -= 1)?;
        self.ws.put_execution(member, self.now);
        self.tasks.add(Task { id, down: passing.down, up: passing.up });
        Ok(())
    }

    /// Notes what this step could not do.
    fn leave(&mut self, task: Task) -> Result<(), Stop> {
        let mut member = (**self.ws.require(task.id)?).clone();
        let Some(node) = member.live.node.as_deref_mut() else { return Ok(()) };
        let known = node.passing;
        let least = |new: Option<u64>, old: Option<u64>| new.into_iter().chain(old).min();
        node.passing = Some(Passing {
            since: self.now,
            down: least(task.down, known.and_then(|it| it.down)),
            up: least(task.up, known.and_then(|it| it.up)),
        });
        if known.is_none() {
            self.count_passing(&member, |count| *count += 1)?;
        }
        self.ws.put_execution(member, self.now);
        Ok(())
    }

    fn count_passing(&mut self, member: &Execution, edit: impl FnOnce(&mut u64)) -> Result<(), Stop> {
        let Some(id) = member.flow() else { return Ok(()) };
        let mut flow = (**self.ws.require_flow(id)?).clone();
        edit(&mut flow.live.passing);
        self.ws.put_flow(flow, self.now);
        self.flows.insert(id);
        Ok(())
    }

    /// Keeps what the flow around a child flow counts of it, and ends its node with it.
    fn tell_around(&mut self, id: FlowId) -> Result<(), Stop> {
        let child = self.ws.require_flow(id)?.clone();
        let Some(parent) = child.spec.parent else { return Ok(()) };
        let mut node = (**self.ws.require(parent)?).clone();
        let (Some(around), state) = (node.flow(), child.child_state()) else { return Ok(()) };
        let known = node.node().and_then(|node| node.child);
        if known != Some(state) {
            let mut flow = (**self.ws.require_flow(around)?).clone();
            let open = |it: ChildState| u64::from(it.is_open());
            let moves = |it: ChildState| u64::from(it == ChildState::Moves);
            flow.live.children += open(state);
            flow.live.children -= known.map_or(0, open);
            flow.live.moving_children += moves(state);
            flow.live.moving_children -= known.map_or(0, moves);
            edit_node(&mut node, |node| node.child = Some(state));
            self.ws.put_execution(node, self.now);
            self.ws.put_flow(flow, self.now);
            self.flows.insert(around);
        }
        child::tell_node(self.ws, self.now, &child)
    }

    // ---- the flow itself -------------------------------------------------------------------------------

    fn close_or_reopen(&mut self, id: FlowId) -> Result<(), Stop> {
        let mut flow = (**self.ws.require_flow(id)?).clone();
        let (is_over, outcome) = (flow.is_over(), flow.outcome());
        // A member that stands for a flow may run again and end within one commit; the flow around it ends anew, too. That
        // is seen by how it ends, or by how long the member stays.
        let reopens = flow.live.end.as_ref().is_some_and(|end| {
            let outlived = end.remove_at.is_some_and(|at| at < flow.live.keep_until);
            !is_over || end.state != outcome || outlived
        });
        if reopens {
            flow.live.end = None;
            self.ws.emit_flow(&flow, self.now, Fact::FlowReopened);
        }
        let ends = is_over && flow.live.end.is_none();
        if ends {
            let keep_until = match flow.live.nodes {
                0 => self.now.saturating_add(self.ws.limits.retention_ms),
                _ => flow.live.keep_until,
            };
            // A child flow leaves with its parent.
            let remove_at = flow.spec.parent.is_none().then_some(keep_until.max(self.now));
            flow.live.end = Some(FlowEnd { state: outcome, at: self.now, remove_at });
            self.ws.emit_flow(&flow, self.now, Fact::FlowEnded { state: outcome });
        }
        if reopens || ends {
            self.ws.put_flow(flow, self.now);
        }
        Ok(())
    }
}
