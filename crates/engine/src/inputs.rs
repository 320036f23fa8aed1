//! Reads what members of flows are given, and the results of flows. What that is stands in [`ff_core::flow::inputs`].

use std::sync::Arc;

use ff_core::flow::inputs::{self, Given, Value};
use ff_core::flow::{Edge, ListKey};
use ff_core::key::{Ask, Key};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, FlowId, Payload};
use ff_store::{Store, StoreError};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many entries of a list are read at once.
const PAGE: usize = 1_000;
/// How many lists are read at once.
const LISTS: usize = 100;

/// The input of a member with everything it is given.
pub(crate) async fn complete(
    store: &dyn Store,
    execution: &Execution,
    own: Payload,
) -> Result<Payload, StoreError> {
    let mut giver = Some(Arc::new(execution.clone()));
    let mut given = Given::new();
    while let Some(node) = giver.take() {
        if inputs::is_given_results(&node) {
            given.extend(results_for(store, &node).await?);
        }
        if let Some(parent) = inputs::giver(&node) {
            giver = record(store, parent).await?;
        }
    }
    Ok(if given.is_empty() { own } else { inputs::merge(&own, given) })
}

/// The results that a node's group was decided with, by the names of their edges.
async fn results_for(store: &dyn Store, node: &Execution) -> Result<Given, StoreError> {
    let (edges, upstreams) = read_all(store, ListKey::Upstream(node.id)).await?;
    let children: FxHashMap<ExecutionId, FlowId> =
        upstreams.iter().filter_map(|it| Some((it.id, it.child_flow()?))).collect();
    let payloads = results(store, inputs::passing(&edges).map(|edge| edge.key.upstream)).await?;
    let mut results = Vec::with_capacity(payloads.len());
    for (edge, payload) in inputs::passing(&edges).zip(payloads) {
        results.push(match children.get(&edge.key.upstream) {
            Some(child) => flow_result(store, *child).await?,
            None => inputs::value(payload.as_ref()),
        });
    }
    Ok(inputs::given(node, &edges, results))
}

/// The result of a flow.
pub(crate) async fn flow_result(store: &dyn Store, flow: FlowId) -> Result<Value, StoreError> {
    let (_, members) = read_all(store, ListKey::Members(flow)).await?;
    let kept = results_of_earlier_runs(store, &members).await?;
    let counts = |it: &Execution| inputs::is_completed(it) || kept.contains(&it.id);
    let rest: Vec<_> = members.iter().filter(|it| !counts(it)).map(|it| it.id).collect();
    let others = edges_into(store, flow, &rest).await?;
    let ends = inputs::ends(members, counts, &others);
    let payloads = results(store, ends.iter().map(|it| it.id)).await?;
    let mut results = Vec::with_capacity(ends.len());
    for (end, payload) in ends.iter().zip(payloads) {
        results.push(match end.child_flow() {
            Some(child) => Box::pin(flow_result(store, child)).await?,
            None => inputs::value(payload.as_ref()),
        });
    }
    Ok(inputs::flow_result(&ends, results))
}

/// Members that run again and have a result of before.
async fn results_of_earlier_runs(
    store: &dyn Store,
    members: &[Arc<Execution>],
) -> Result<FxHashSet<ExecutionId>, StoreError> {
    let again: Vec<_> = members.iter().filter(|it| inputs::runs_again(it)).collect();
    if again.is_empty() {
        return Ok(FxHashSet::default());
    }
    let payloads = results(store, again.iter().map(|it| it.id)).await?;
    let kept = again.iter().zip(payloads).filter(|(it, found)| found.is_some() || it.child_flow().is_some());
    Ok(kept.map(|(it, _)| it.id).collect())
}

async fn results(
    store: &dyn Store,
    executions: impl Iterator<Item = ExecutionId>,
) -> Result<Vec<Option<Payload>>, StoreError> {
    let keys: Vec<_> = executions.map(|execution| PayloadKey { execution, slot: Slot::Result }).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    store.payloads(keys).await
}

/// The edges that lead to these members of a flow.
async fn edges_into(
    store: &dyn Store,
    flow: FlowId,
    members: &[ExecutionId],
) -> Result<Vec<Arc<Edge>>, StoreError> {
    let partition = flow.route().partition(store.info().partitions);
    let mut all = Vec::new();
    for some in members.chunks(LISTS) {
        let ask = |id: &ExecutionId| Ask::List { list: ListKey::Upstream(*id), after: 0, limit: PAGE };
        for answer in store.load(partition, some.iter().map(ask).collect()).await?.answers {
            let Answer::List { list, entries, edges, .. } = answer else { continue };
            // A list that goes on is read once more, whole.
            let edges = if entries.len() < PAGE { edges } else { read_all(store, list).await?.0 };
            all.extend(edges);
        }
    }
    Ok(all)
}

async fn record(store: &dyn Store, id: ExecutionId) -> Result<Option<Arc<Execution>>, StoreError> {
    let asks = vec![Ask::Record(Key::Execution(id))];
    let loaded = store.load(id.route().partition(store.info().partitions), asks).await?;
    Ok(loaded.answers.into_iter().find_map(|answer| match answer {
        Answer::Execution(_, execution) => execution,
        _ => None,
    }))
}

/// All entries of a list of a graph.
async fn read_all(
    store: &dyn Store,
    list: ListKey,
) -> Result<(Vec<Arc<Edge>>, Vec<Arc<Execution>>), StoreError> {
    let route = match list {
        ListKey::Members(flow) => flow.route(),
        ListKey::Downstream(id) | ListKey::Upstream(id) => id.route(),
    };
    let partition = route.partition(store.info().partitions);
    let (mut edges, mut executions, mut after) = (Vec::new(), Vec::new(), 0);
    loop {
        let loaded = store.load(partition, vec![Ask::List { list, after, limit: PAGE }]).await?;
        let mut count = 0;
        for answer in loaded.answers {
            if let Answer::List { entries, edges: some, executions: others, .. } = answer {
                count = entries.len();
                after = entries.last().map_or(after, |(number, _)| *number);
                edges.extend(some);
                executions.extend(others);
            }
        }
        if count < PAGE {
            return Ok((edges, executions));
        }
    }
}
