//! No cycles, found at any size without walking the whole graph.
//!
//! Every node has a level that never falls along an edge. A new edge can only close a cycle among nodes between
//! the levels of its two ends, so the search stays there: backward from its upstream among equals, at most about
//! as far as the root of the number of edges; beyond that the downstream is lifted by one level instead, and
//! with it whatever is no longer above its upstreams. Lifting often enough to hurt needs a graph that large.
//!
//! A spare comes after the one it is a spare for like after an upstream: one that the other waits for would wait
//! for it in turn, and neither would ever start.

use rustc_hash::FxHashSet;

use crate::Ms;
use crate::execution::Execution;
use crate::flow::{EdgeKey, ListKey};
use crate::id::ExecutionId;
use crate::key::Ask;
use crate::rejection::Rejection;
use crate::workspace::{Stop, Workspace};

/// How far back is looked at least before a node is lifted.
const LOOK_BACK_MIN: usize = 64;

/// Makes room for an edge in the order of levels, or rejects it because it closes a cycle. `edges` is how many
/// the flow has.
pub(super) fn make_room(ws: &mut Workspace, now: Ms, key: EdgeKey, edges: u64) -> Result<(), Stop> {
    let EdgeKey { upstream, downstream } = key;
    let (above, below) = (level(ws, upstream)?, level(ws, downstream)?);
    if above < below {
        return Ok(());
    }
    // What nothing comes after cannot lead back.
    let after = ws.require(downstream)?;
    if spare(after).is_none() && after.node().is_none_or(|node| node.dependents == 0) {
        return lift(ws, now, downstream, above);
    }
    let look_back_max = LOOK_BACK_MIN.max(edges.isqrt() as usize);
    let Some(ancestors) = ancestors(ws, key, above, look_back_max)? else {
        return lift_all(ws, now, key, above + 1, FxHashSet::from_iter([upstream]));
    };
    if above == below { Ok(()) } else { lift_all(ws, now, key, above, ancestors) }
}

/// The upstream and everything on its level that leads to it; `None` if that is too much to look at.
fn ancestors(
    ws: &Workspace,
    key: EdgeKey,
    at: u32,
    look_back_max: usize,
) -> Result<Option<FxHashSet<ExecutionId>>, Stop> {
    let mut seen = FxHashSet::from_iter([key.upstream]);
    let mut stack = vec![key.upstream];
    let (mut looked, mut missing) = (0, Missing::default());
    while let Some(node) = stack.pop() {
        let Some(it) = missing.note(ws.require(node))? else { continue };
        let previous = it.spec.member.as_ref().and_then(|member| member.hedge).map(|hedge| hedge.previous);
        let (edges, more) = match it.node().is_none_or(|node| node.group.total == 0) {
            true => (Vec::new(), false),
            false => {
                let edges = ws.list(ListKey::Upstream(node), 0, look_back_max - looked);
                missing.note(edges)?.unwrap_or_default()
            }
        };
        looked += edges.len();
        for id in edges.into_iter().map(|(_, id)| id).chain(previous) {
            if id == key.downstream {
                return Err(cycle(key));
            }
            if !seen.contains(&id) && missing.note(level(ws, id))? == Some(at) {
                seen.insert(id);
                stack.push(id);
            }
        }
        if more || looked >= look_back_max {
            return missing.or(None);
        }
    }
    missing.or(Some(seen))
}

/// Lifts the downstream of a new edge, and whatever must stay above it. Meeting one of `ancestors` on the way
/// is a cycle.
fn lift_all(
    ws: &mut Workspace,
    now: Ms,
    key: EdgeKey,
    to: u32,
    ancestors: FxHashSet<ExecutionId>,
) -> Result<(), Stop> {
    if ancestors.contains(&key.downstream) {
        return Err(cycle(key));
    }
    lift(ws, now, key.downstream, to)?;
    let (mut stack, mut missing) = (vec![key.downstream], Missing::default());
    while let Some(node) = stack.pop() {
        let edges = missing.note(ws.list(ListKey::Downstream(node), 0, usize::MAX))?;
        let (edges, _) = edges.unwrap_or_default();
        let spare = spare(ws.require(node)?);
        for id in edges.into_iter().map(|(_, id)| id).chain(spare) {
            if ancestors.contains(&id) {
                return Err(cycle(key));
            }
            if missing.note(level(ws, id))?.is_some_and(|level| level < to) {
                lift(ws, now, id, to)?;
                stack.push(id);
            }
        }
    }
    missing.or(())
}

/// What a search could not see because it is not in memory, to be read all at once: after each read everything is
/// searched anew.
#[derive(Default)]
struct Missing(Vec<Ask>);

impl Missing {
    fn note<T>(&mut self, found: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Need(asks)) => {
                self.0.extend(asks);
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    fn or<T>(self, found: T) -> Result<T, Stop> {
        if self.0.is_empty() { Ok(found) } else { Err(Stop::Need(self.0)) }
    }
}

/// What starts after a member has, as if an edge led there.
fn spare(member: &Execution) -> Option<ExecutionId> {
    member.spec.member.as_ref().and_then(|member| member.spare)
}

fn cycle(key: EdgeKey) -> Stop {
    Rejection::Cycle { upstream: key.upstream, downstream: key.downstream }.into()
}

fn level(ws: &Workspace, id: ExecutionId) -> Result<u32, Stop> {
    Ok(ws.require(id)?.node().map_or(0, |node| node.level))
}

fn lift(ws: &mut Workspace, now: Ms, id: ExecutionId, to: u32) -> Result<(), Stop> {
    let mut execution = (**ws.require(id)?).clone();
    if let Some(node) = execution.live.node.as_mut().filter(|node| node.level < to) {
        node.level = to;
        ws.put_execution(execution, now);
    }
    Ok(())
}
