//! Flows, edges, and the lists that a graph is walked by.

use ff_core::flow::{Edge, EdgeKey, Flow, ListKey};
use ff_core::key::{Ask, Key};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, FlowId, PartitionId};

use super::super::graph_samples::{self, NodeSample};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, samples};

fn flow_id(stand: &Stand, partition: PartitionId, n: u64) -> FlowId {
    FlowId(samples::id(stand.partitions, partition, n).0)
}

async fn read_flow(stand: &Stand, partition: PartitionId, id: FlowId) -> Result<Option<Flow>, String> {
    match stand.ask(partition, Ask::Record(Key::Flow(id))).await? {
        Answer::Flow(told, flow) if told == id => Ok(flow.map(|it| (*it).clone())),
        other => Err(format!("flow {id} was asked for, the answer was {other:?}")),
    }
}

async fn read_edge(stand: &Stand, partition: PartitionId, key: EdgeKey) -> Result<Option<Edge>, String> {
    match stand.ask(partition, Ask::Record(Key::Edge(key))).await? {
        Answer::Edge(told, edge) if told == key => Ok(edge.map(|it| (*it).clone())),
        other => Err(format!("edge {key:?} was asked for, the answer was {other:?}")),
    }
}

/// One read of a list, which must be coherent in itself.
async fn read_list(
    stand: &Stand,
    list: ListKey,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, ExecutionId)>, String> {
    let answer = stand.ask(stand.last(), Ask::List { list, after, limit }).await?;
    let Answer::List { list: l, after: a, limit: m, entries, edges, executions } = answer else {
        return Err(format!("a list was asked for, the answer was {answer:?}"));
    };
    ensure_eq!((l, a, m), (list, after, limit), "what the list is about");
    ensure!(entries.len() <= limit, "{} entries came where at most {limit} may", entries.len());
    let with: Vec<ExecutionId> = executions.iter().map(|it| it.id).collect();
    ensure_eq!(with, entries.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "the executions of a list");
    let ends: Vec<EdgeKey> = entries
        .iter()
        .filter_map(|(_, other)| match list {
            ListKey::Members(_) => None,
            ListKey::Downstream(upstream) => Some(EdgeKey { upstream, downstream: *other }),
            ListKey::Upstream(downstream) => Some(EdgeKey { upstream: *other, downstream }),
        })
        .collect();
    ensure_eq!(edges.iter().map(|it| it.key).collect::<Vec<_>>(), ends, "the edges of a list");
    Ok(entries)
}

async fn check_list(stand: &Stand, list: ListKey, want: &[(u64, ExecutionId)]) -> Check {
    for limit in [1, 2, 3, want.len() + 1, 1_000] {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let part = read_list(stand, list, after, limit).await?;
            let Some((last, _)) = part.last() else { break };
            ensure!(*last > after, "a part after {after} ends at {last}");
            after = *last;
            all.extend(part);
        }
        ensure_eq!(all, want, "{list:?} in parts of {limit}");
    }
    Ok(())
}

pub async fn flows_read_back_and_go(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let id = flow_id(stand, partition, 1);
        for flow in graph_samples::flows(id) {
            stand.desk(partition).put_flow(flow.clone(), START);
            stand.flush(partition).await?;
            ensure_eq!(read_flow(stand, partition, id).await?, Some(flow), "a flow that was written");
        }
    }
    let partition = stand.last();
    let id = flow_id(stand, partition, 1);
    stand.desk(partition).purge_flow(id);
    stand.flush(partition).await?;
    ensure_eq!(read_flow(stand, partition, id).await?, None, "a flow that was removed");
    stand.same().await
}

pub async fn edges_read_back_and_go(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let flow = flow_id(stand, partition, 1);
    let partitions = stand.partitions;
    let id = |n| samples::id(partitions, partition, n);
    let key = EdgeKey { upstream: id(2), downstream: id(3) };
    let back = EdgeKey { upstream: id(3), downstream: id(2) };
    for edge in graph_samples::edges(key, flow, 1) {
        stand.desk(partition).put_edge(edge.clone());
        stand.flush(partition).await?;
        ensure_eq!(read_edge(stand, partition, key).await?, Some(edge), "an edge that was written");
        ensure_eq!(read_edge(stand, partition, back).await?, None, "the edge the other way round");
    }
    stand.desk(partition).purge_edge(key);
    stand.flush(partition).await?;
    ensure_eq!(read_edge(stand, partition, key).await?, None, "an edge that was removed");
    ensure_eq!(read_list(stand, ListKey::Downstream(id(2)), 0, 9).await?, [], "what it led to");
    Ok(())
}

pub async fn lists_of_a_graph_come_in_order_and_in_pages(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (flow, other) = (flow_id(stand, partition, 1), flow_id(stand, partition, 2));
    let partitions = stand.partitions;
    // Ids run against the numbers, so that an order by id is noticed.
    let id = |n: u64| samples::id(partitions, partition, 1_000 - n);
    for n in 1..=20u64 {
        let member = graph_samples::member(id(n), NodeSample { flow, number: n });
        stand.desk(partition).put_execution(member, START);
        let foreign = graph_samples::member(id(n + 100), NodeSample { flow: other, number: n });
        stand.desk(partition).put_execution(foreign, START);
    }
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for n in 1..=9u64 {
        let key = EdgeKey { upstream: id(1), downstream: id(1 + n) };
        stand.desk(partition).put_edge(graph_samples::edge(key, flow, n));
        down.push((n, id(1 + n)));
        let key = EdgeKey { upstream: id(1 + n), downstream: id(20) };
        stand.desk(partition).put_edge(graph_samples::edge(key, flow, 100 + n));
        up.push((100 + n, id(1 + n)));
    }
    stand.flush(partition).await?;
    let members: Vec<_> = (1..=20).map(|n| (n, id(n))).collect();
    check_list(stand, ListKey::Members(flow), &members).await?;
    check_list(stand, ListKey::Downstream(id(1)), &down).await?;
    check_list(stand, ListKey::Upstream(id(20)), &up).await?;
    check_list(stand, ListKey::Upstream(id(1)), &[]).await?;
    // Removing a member takes it off the list of its flow and leaves the others.
    stand.desk(partition).purge_execution(id(7));
    stand.flush(partition).await?;
    let left: Vec<_> = members.into_iter().filter(|(n, _)| *n != 7).collect();
    check_list(stand, ListKey::Members(flow), &left).await?;
    stand.same().await
}

pub async fn a_sweep_finds_flows_that_are_old_enough(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let ids: Vec<FlowId> = (1..=4).map(|n| flow_id(stand, partition, n)).collect();
    for (n, id) in ids.iter().enumerate() {
        let flow = graph_samples::ended_flow(*id, START + 10 - n as i64);
        stand.desk(partition).put_flow(flow, START);
    }
    let running = graph_samples::flows(flow_id(stand, partition, 9)).swap_remove(0);
    stand.desk(partition).put_flow(running, START);
    stand.flush(partition).await?;
    let sweep = |now, limit| Ask::Sweep { now, events_before: 0, limit };
    let Answer::Sweep(page) = stand.ask(partition, sweep(START + 9, 10)).await? else {
        return Err("a sweep was asked for".to_owned());
    };
    let want = [(START + 7, ids[3]), (START + 8, ids[2]), (START + 9, ids[1])];
    ensure_eq!(page.flows, want, "flows that are old enough, oldest first");
    ensure_eq!(page.next, Some(START + 10), "when the next is old enough");
    let Answer::Sweep(page) = stand.ask(partition, sweep(START + 9, 2)).await? else {
        return Err("a sweep was asked for".to_owned());
    };
    ensure_eq!(page.flows, want[..2], "no more than asked for");
    Ok(())
}

pub async fn changes_of_a_graph_are_told(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let since = stand.version(partition).await?.number;
    let flow = flow_id(stand, partition, 1);
    let partitions = stand.partitions;
    let id = |n| samples::id(partitions, partition, n);
    let (kept, gone) =
        (EdgeKey { upstream: id(2), downstream: id(3) }, EdgeKey { upstream: id(2), downstream: id(4) });
    let record = graph_samples::flows(flow).swap_remove(0);
    stand.desk(partition).put_flow(record.clone(), START);
    stand.desk(partition).put_edge(graph_samples::edge(kept, flow, 1));
    stand.desk(partition).put_edge(graph_samples::edge(gone, flow, 2));
    stand.flush(partition).await?;
    stand.desk(partition).purge_edge(gone);
    stand.flush(partition).await?;
    let Answer::Changes(Some(missed)) = stand.ask(partition, Ask::Changes { since }).await? else {
        return Err("two commits can be told apart".to_owned());
    };
    let flows: Vec<_> = missed.flows.iter().map(|(id, it)| (*id, it.as_deref().cloned())).collect();
    ensure_eq!(flows, [(flow, Some(record))], "the flows that changed");
    let mut edges: Vec<_> = missed.edges.iter().map(|(key, it)| (*key, it.as_deref().cloned())).collect();
    edges.sort_by_key(|(key, _)| *key);
    let mut want = vec![(kept, Some(graph_samples::edge(kept, flow, 1))), (gone, None)];
    want.sort_by_key(|(key, _)| *key);
    ensure_eq!(edges, want, "the edges that changed, also one that is gone");
    Ok(())
}
