//! Flows: everything that their records, members and edges say of each other is counted again.
//!
//! One flow is in memory at a time, with its members and edges.

use std::sync::Arc;

use ff_core::flow::recount::{Graph, child_problem, is_leaving};
use ff_core::flow::{Edge, ListKey};
use ff_core::key::{Ask, Key};
use ff_core::query::{FlowFilter, FlowPageAsk, Order};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, Flow, Ms, PartitionId};
use ff_store::{Store, StoreError};
use rustc_hash::FxHashMap;

const PAGE: usize = 1_000;
/// Of how many members the edges are read at once.
const FEW: usize = 100;

/// What the flows of a store are, seen from their records.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub count: u64,
    pub members: u64,
    pub problems: Vec<String>,
    /// The walks through members that the agenda must have, by partition.
    pub walks: Vec<(PartitionId, Ms, ff_core::FlowId)>,
}

pub(super) async fn examine(store: &dyn Store) -> Result<Flows, StoreError> {
    let partitions = store.info().partitions;
    let mut found = Flows::default();
    let mut ask = FlowPageAsk {
        filter: FlowFilter::default(),
        order: Order::OldestFirst,
        after: None,
        limit: PAGE,
        scan_max: PAGE,
    };
    loop {
        let page = store.flows(ask.clone()).await?;
        for flow in &page.flows {
            let partition = flow.id.route().partition(partitions);
            found.count += 1;
            found.walks.extend(flow.live.walk.map(|walk| (partition, walk.since, flow.id)));
            look_at(store, partition, flow, &mut found).await?;
        }
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return Ok(found),
        }
    }
}

async fn look_at(
    store: &dyn Store,
    partition: PartitionId,
    flow: &Flow,
    found: &mut Flows,
) -> Result<(), StoreError> {
    let members = members(store, partition, flow, &mut found.problems).await?;
    found.members += members.len() as u64;
    let mut edges = Vec::new();
    let now = super::opening(store, partition).await?.header.now;
    // While a flow is being removed, its edges go before their ends do.
    let mut of_edges = Vec::new();
    for part in members.chunks(FEW) {
        edges_of(store, partition, part, &mut edges, &mut of_edges).await?;
    }
    if !is_leaving(flow, members.len(), now) {
        found.problems.extend(of_edges);
    }
    let graph = Graph::new(flow, members.iter().map(|it| &**it), edges.iter().map(|it| &**it));
    found.problems.extend(graph.problems(now));
    for member in members.iter().filter(|it| it.child_flow().is_some()) {
        let child = child_of(store, partition, member).await?;
        found.problems.extend(child_problem(member, child.as_deref()));
    }
    Ok(())
}

/// All members, in the order of their numbers, each in the place that its record names.
async fn members(
    store: &dyn Store,
    partition: PartitionId,
    flow: &Flow,
    problems: &mut Vec<String>,
) -> Result<Vec<Arc<Execution>>, StoreError> {
    let mut members = Vec::new();
    let (list, mut after) = (ListKey::Members(flow.id), 0);
    loop {
        let loaded = store.load(partition, vec![Ask::List { list, after, limit: PAGE }]).await?;
        let Some(Answer::List { entries, executions, .. }) = loaded.answers.into_iter().next() else {
            return Ok(members);
        };
        let place = |it: &Execution| it.spec.member.as_ref().map(|member| (member.number, it.id));
        if !executions.iter().filter_map(|it| place(it)).eq(entries.iter().copied()) {
            problems.push(format!("flow {}: its list of members is not what they say", flow.id));
        }
        members.extend(executions);
        match entries.last() {
            Some((number, _)) if entries.len() >= PAGE => after = *number,
            _ => return Ok(members),
        }
    }
}

/// The edges out of these members; those into them must be the same edges, seen from the other end.
async fn edges_of(
    store: &dyn Store,
    partition: PartitionId,
    members: &[Arc<Execution>],
    all: &mut Vec<Arc<Edge>>,
    problems: &mut Vec<String>,
) -> Result<(), StoreError> {
    let by_id: FxHashMap<ExecutionId, &Execution> = members.iter().map(|it| (it.id, &**it)).collect();
    let lists = members.iter().flat_map(|it| [ListKey::Downstream(it.id), ListKey::Upstream(it.id)]);
    let asks = lists.map(|list| Ask::List { list, after: 0, limit: usize::MAX >> 1 }).collect();
    for answer in store.load(partition, asks).await?.answers {
        let Answer::List { list, entries, edges, .. } = answer else { continue };
        let (node, other): (_, fn(&Edge) -> ExecutionId) = match list {
            ListKey::Downstream(id) => (id, |edge| edge.key.downstream),
            ListKey::Upstream(id) => (id, |edge| edge.key.upstream),
            ListKey::Members(_) => continue,
        };
        if !edges.iter().map(|edge| (edge.number, other(edge))).eq(entries.iter().copied()) {
            problems.push(format!("{node}: its list of edges is not what the edges say"));
        }
        let member = by_id.get(&node).and_then(|it| it.node());
        let into = member.map_or(0, |node| node.group.total as usize);
        if matches!(list, ListKey::Upstream(_)) && edges.len() != into {
            problems.push(format!("{node} counts {into} inbound edges, {} are listed", edges.len()));
        }
        if matches!(list, ListKey::Downstream(_)) {
            all.extend(edges);
        }
    }
    Ok(())
}

async fn child_of(
    store: &dyn Store,
    partition: PartitionId,
    member: &Execution,
) -> Result<Option<Arc<Flow>>, StoreError> {
    let Some(id) = member.child_flow() else { return Ok(None) };
    let loaded = store.load(partition, vec![Ask::Record(Key::Flow(id))]).await?;
    Ok(match loaded.answers.into_iter().next() {
        Some(Answer::Flow(_, flow)) => flow,
        _ => None,
    })
}
