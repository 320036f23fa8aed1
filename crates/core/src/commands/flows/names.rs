//! Names of nodes: each is there once in its flow, however late a node comes.
//!
//! A flow that may grow from outside keeps its names beside the idempotency keys, one record each, so that a name is
//! looked up without reading the nodes. One that is sealed from its beginning grows only if a member adds to it; most
//! never do, so its names are kept when the first member does. It has at most as many nodes then as one call can make.

use rustc_hash::FxHashSet;

use super::extend::NewNode;
use crate::Ms;
use crate::flow::{Flow, ListKey};
use crate::id::ExecutionId;
use crate::key::{Dedup, DedupKey};
use crate::name::NodeName;
use crate::rejection::{Invalid, Rejection};
use crate::workspace::{Stop, Workspace};

/// Refuses nodes that are added together under one name.
pub(super) fn validate(nodes: &[NewNode]) -> Result<(), Rejection> {
    let mut names = FxHashSet::default();
    match nodes.iter().filter_map(|node| node.name.as_ref()).find(|name| !names.insert(*name)) {
        Some(name) => Err(twice(name, "of two new nodes")),
        None => Ok(()),
    }
}

fn twice(name: &NodeName, whose: &str) -> Rejection {
    let problem =
        format!("is {:?} {whose}; each node of a flow has a name of its own, or none", name.as_str());
    Invalid::new("nodes.name", problem).into()
}

/// Keeps the names of a new flow's first nodes, if more can come from outside.
pub(super) fn found(ws: &mut Workspace, flow: &mut Flow, nodes: &[NewNode]) {
    flow.live.names_kept = !flow.live.sealed;
    if flow.live.names_kept {
        keep(ws, flow, nodes);
    }
}

/// Keeps the names of nodes that are added to a flow, none of which may be there.
pub(super) fn claim(ws: &mut Workspace, flow: &mut Flow, nodes: &[NewNode]) -> Result<(), Stop> {
    if !flow.live.names_kept {
        keep_first(ws, flow)?;
        flow.live.names_kept = true;
    }
    let named = |node: &NewNode| node.name.as_ref().map(|name| key(flow, name));
    know(ws, nodes.iter().filter_map(named))?;
    for node in nodes {
        let (Some(name), Some(key)) = (&node.name, named(node)) else { continue };
        // One that is added again is refused for being there, not for its name.
        if let Some(taken) = ws.dedup(&key)?.filter(|taken| taken.execution != node.create.id) {
            return Err(twice(name, &format!("as that of {}", taken.execution)).into());
        }
    }
    keep(ws, flow, nodes);
    Ok(())
}

/// Keeps the names of the nodes that a flow was made with.
fn keep_first(ws: &mut Workspace, flow: &Flow) -> Result<(), Stop> {
    // A flow of an earlier version of this program may have grown without its names being kept. It can be of any
    // size, so only what is added from now on is looked at.
    if flow.live.nodes > ws.limits.flow_items_max as u64 {
        return Ok(());
    }
    let (members, _) = ws.list(ListKey::Members(flow.id), 0, usize::MAX)?;
    let unknown = members.iter().filter_map(|(_, id)| match ws.execution(*id) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let unknown: Vec<_> = unknown.flatten().collect();
    if !unknown.is_empty() {
        return Err(Stop::Need(unknown));
    }
    for (_, id) in members {
        if let Some(name) = ws.require(id)?.node_name() {
            let key = key(flow, name);
            put(ws, key, id);
        }
    }
    Ok(())
}

/// A removed flow gives its members' names back with them.
pub(super) fn release(ws: &mut Workspace, flow: &Flow, members: &[(u64, ExecutionId)]) -> Result<(), Stop> {
    if !flow.live.names_kept {
        return Ok(());
    }
    let mut keys = Vec::new();
    for (_, id) in members {
        let name = ws.execution(*id)?.and_then(|it| it.node_name());
        keys.extend(name.map(|name| (key(flow, name), *id)));
    }
    know(ws, keys.iter().map(|(key, _)| key.clone()))?;
    for (key, id) in keys {
        if ws.dedup(&key)?.is_some_and(|kept| kept.execution == id) {
            ws.put_dedup(key, None);
        }
    }
    Ok(())
}

fn key(flow: &Flow, name: &NodeName) -> DedupKey {
    DedupKey::of_node(flow.spec.namespace.clone(), flow.id, name)
}

fn keep(ws: &mut Workspace, flow: &Flow, nodes: &[NewNode]) {
    for node in nodes {
        if let Some(name) = &node.name {
            put(ws, key(flow, name), node.create.id);
        }
    }
}

fn put(ws: &mut Workspace, key: DedupKey, execution: ExecutionId) {
    ws.put_dedup(key, Some(Dedup { execution, expires_at: Ms::MAX }));
}

/// Asks for all of these at once that are not in memory.
fn know(ws: &Workspace, keys: impl Iterator<Item = DedupKey>) -> Result<(), Stop> {
    let asks = keys.filter_map(|key| match ws.dedup(&key) {
        Err(Stop::Need(asks)) => Some(asks),
        _ => None,
    });
    let asks: Vec<_> = asks.flatten().collect();
    if asks.is_empty() { Ok(()) } else { Err(Stop::Need(asks)) }
}
