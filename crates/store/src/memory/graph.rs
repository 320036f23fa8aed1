//! Flows, edges, and the lists that follow from members and edges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ff_core::execution::Execution;
use ff_core::flow::{Edge, EdgeKey, Flow, ListKey};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, FlowId, Ms};

use super::partition::Partition;

/// The graphs of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Graphs {
    flows: BTreeMap<FlowId, Arc<Flow>>,
    /// Ended flows in the order in which retention removes them.
    ended: BTreeSet<(Ms, FlowId)>,
    edges: BTreeMap<EdgeKey, Arc<Edge>>,
    lists: BTreeMap<ListKey, BTreeMap<u64, ExecutionId>>,
}

impl Graphs {
    pub(super) fn flow(&self, id: FlowId) -> Option<&Arc<Flow>> {
        self.flows.get(&id)
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.flows.values()
    }

    pub(super) fn by_id(&self) -> &BTreeMap<FlowId, Arc<Flow>> {
        &self.flows
    }

    pub(super) fn edge(&self, key: &EdgeKey) -> Option<&Arc<Edge>> {
        self.edges.get(key)
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.edges.values()
    }

    /// Ended flows by when they may be removed.
    pub(super) fn ended(&self) -> impl Iterator<Item = &(Ms, FlowId)> {
        self.ended.iter()
    }

    pub(super) fn put_flow(&mut self, id: FlowId, flow: Option<Arc<Flow>>) {
        let ended = |it: &Arc<Flow>| Some((it.live.end.as_ref()?.remove_at?, it.id));
        if let Some(before) = self.flows.remove(&id).as_ref().and_then(ended) {
            self.ended.remove(&before);
        }
        self.ended.extend(flow.as_ref().and_then(ended));
        self.flows.extend(flow.map(|flow| (id, flow)));
    }

    pub(super) fn put_edge(&mut self, key: EdgeKey, edge: Option<Arc<Edge>>) {
        let ends = [
            (ListKey::Downstream(key.upstream), key.downstream),
            (ListKey::Upstream(key.downstream), key.upstream),
        ];
        let before = self.edges.remove(&key);
        for (list, other) in ends {
            if let Some(before) = &before {
                self.forget(list, before.number);
            }
            if let Some(edge) = &edge {
                self.lists.entry(list).or_default().insert(edge.number, other);
            }
        }
        self.edges.extend(edge.map(|edge| (key, edge)));
    }

    /// Keeps the members of a flow right when an execution comes or goes.
    pub(super) fn member(&mut self, before: Option<&Execution>, after: Option<&Execution>) {
        let place = |it: Option<&Execution>| {
            let member = it?.spec.member.as_ref()?;
            Some((ListKey::Members(member.flow), member.number))
        };
        if place(before) == place(after) {
            return;
        }
        if let Some((list, number)) = place(before) {
            self.forget(list, number);
        }
        if let (Some((list, number)), Some(it)) = (place(after), after) {
            self.lists.entry(list).or_default().insert(number, it.id);
        }
    }

    fn forget(&mut self, list: ListKey, number: u64) {
        if let Some(entries) = self.lists.get_mut(&list) {
            entries.remove(&number);
            if entries.is_empty() {
                self.lists.remove(&list);
            }
        }
    }
}

impl Partition {
    pub(super) fn list(&self, list: ListKey, after: u64, limit: usize) -> Answer {
        let known = self.graphs.lists.get(&list).into_iter();
        let from = after.checked_add(1);
        let rest = known.flat_map(|entries| from.into_iter().flat_map(|from| entries.range(from..)));
        let entries: Vec<(u64, ExecutionId)> = rest.take(limit).map(|(n, id)| (*n, *id)).collect();
        let key = |other| match list {
            ListKey::Members(_) => None,
            ListKey::Downstream(upstream) => Some(EdgeKey { upstream, downstream: other }),
            ListKey::Upstream(downstream) => Some(EdgeKey { upstream: other, downstream }),
        };
        let edges = entries.iter().filter_map(|(_, id)| self.graphs.edge(&key(*id)?).cloned()).collect();
        let executions = entries.iter().filter_map(|(_, id)| self.executions.get(id).cloned()).collect();
        Answer::List { list, after, limit, entries, edges, executions }
    }

    /// All flows in the order of their ids.
    pub fn flows(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.graphs.flows()
    }

    /// All edges in the order of their ends.
    pub fn edges(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.graphs.edges()
    }
}
