//! What must hold of every graph after every commit.

use std::collections::BTreeMap;

use super::model::Model;
use crate::execution::Execution;
use crate::flow::Edge;
use crate::flow::recount::{Graph, child_problem};
use crate::id::FlowId;

pub(super) fn check(store: &Model) {
    let mut parts = BTreeMap::<FlowId, (Vec<&Execution>, Vec<&Edge>)>::new();
    for it in store.executions.values() {
        assert_eq!(it.live.node.is_some(), it.flow().is_some());
        if let Some(flow) = it.flow() {
            assert!(store.flows.contains_key(&flow), "a member outlives its flow");
            parts.entry(flow).or_default().0.push(it);
        }
        let child = it.child_flow().and_then(|id| store.flows.get(&id));
        assert_eq!(child_problem(it, child.map(|flow| &**flow)), None);
    }
    for edge in store.edges.values() {
        assert!(store.executions.contains_key(&edge.key.upstream), "an edge outlives its upstream");
        parts.entry(edge.flow).or_default().1.push(edge);
    }
    for flow in store.flows.values() {
        let (members, edges) = parts.remove(&flow.id).unwrap_or_default();
        let problems = Graph::new(flow, members, edges).problems(store.header.now);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
