//! Pages of flows: both orders, every filter, and a bound on how much is looked at; and the members of a flow
//! among all executions.

use std::sync::Arc;

use ff_core::flow::{Flow, FlowEnd, FlowSpec, FlowState};
use ff_core::query::{Filter, FlowFilter, FlowPage, FlowPageAsk, Order, PageAsk};
use ff_core::state::PublicState;
use ff_core::{ExecutionId, FlowId, Ms, PartitionId};

use super::super::graph_samples::{self, NodeSample};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, samples};

const ORDERS: [Order; 2] = [Order::OldestFirst, Order::NewestFirst];
const MANY: usize = 1_000;

async fn page(stand: &Stand, ask: FlowPageAsk) -> Result<FlowPage, String> {
    stand.store.flows(ask).await.map_err(|error| error.to_string())
}

/// Reads all pages; `next` must lead to the end, and each page must keep to its bounds.
async fn read_all(
    stand: &Stand,
    filter: &FlowFilter,
    order: Order,
    limit: usize,
    scan_max: usize,
) -> Result<Vec<Flow>, String> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..MANY {
        let ask = FlowPageAsk { filter: filter.clone(), order, after, limit, scan_max };
        let page = page(stand, ask).await?;
        ensure!(page.flows.len() <= limit.min(scan_max), "{} came on one page", page.flows.len());
        if let (Some(next), Some(after)) = (page.next, after) {
            let forward = if order == Order::OldestFirst { next > after } else { next < after };
            ensure!(forward, "the page after {after} leads to {next}");
        }
        all.extend(page.flows);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
    Err(format!("the pages of {limit} do not end"))
}

fn ids(flows: &[Flow]) -> Vec<FlowId> {
    flows.iter().map(|it| it.id).collect()
}

/// The order the pages must have.
fn sorted(mut flows: Vec<Flow>, order: Order) -> Vec<Flow> {
    flows.sort_by_key(|it| it.id);
    if order == Order::NewestFirst {
        flows.reverse();
    }
    flows
}

/// Where the n-th record of a case lives.
fn home(stand: &Stand, n: u64) -> PartitionId {
    PartitionId((n * 7 % u64::from(stand.partitions)) as u16)
}

/// Flows over all partitions, whose ids take turns and which differ in everything a filter can ask for.
fn varied(stand: &Stand, count: u64) -> Vec<Flow> {
    let flow = |n: u64| {
        let id = FlowId(samples::id(stand.partitions, home(stand, n), n).0);
        let mut flow = graph_samples::ended_flow(id, START + 9);
        flow.spec = Arc::new(FlowSpec {
            namespace: samples::namespace(["a", "b"][n as usize % 2]),
            kind: samples::kind(["k", "k2"][n as usize / 2 % 2]),
            created_at: START + n as Ms / 4,
            ..(*flow.spec).clone()
        });
        let ended = FlowState::ALL.iter().filter(|state| state.is_terminal()).copied().collect::<Vec<_>>();
        match n % 6 {
            // Open, running and blocked follow from the record.
            0 => (flow.live.sealed, flow.live.end) = (false, None),
            1 => {
                flow.live.summary.add(PublicState::Active);
                flow.live.end = None;
            }
            2 => {
                flow.live.summary.add(PublicState::Delayed);
                flow.live.end = None;
            }
            n => {
                let state = ended[n as usize % ended.len()];
                flow.live.end = Some(FlowEnd { state, at: START, remove_at: Some(START + 9) });
            }
        }
        if !n.is_multiple_of(3) {
            flow.live.tags =
                samples::tags(&[("team", ["red", "Red", "blue"][n as usize % 3]), ("n", &n.to_string())]);
        }
        flow
    };
    (0..count).map(flow).collect()
}

async fn put_all(stand: &mut Stand, flows: &[Flow]) -> Check {
    for flow in flows {
        let partition = flow.id.route().partition(stand.partitions);
        stand.desk(partition).put_flow(flow.clone(), flow.live.changed_at);
    }
    stand.flush_all().await
}

pub async fn pages_of_flows_cover_everything_in_both_orders(stand: &mut Stand) -> Check {
    let all = varied(stand, 25);
    put_all(stand, &all).await?;
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        for limit in [1, 4, 24, 25, 26, MANY] {
            let got = read_all(stand, &FlowFilter::default(), order, limit, MANY).await?;
            ensure_eq!(ids(&got), ids(&want), "pages of {limit}, {order:?}");
            ensure_eq!(got, want, "records of pages of {limit}");
        }
        for at in [0, 11, 24] {
            let after = Some(want[at].id);
            let ask = FlowPageAsk { filter: FlowFilter::default(), order, after, limit: 3, scan_max: MANY };
            let end = (at + 4).min(want.len());
            ensure_eq!(
                ids(&page(stand, ask).await?.flows),
                ids(&want[at + 1..end]),
                "the page after {after:?}"
            );
        }
    }
    // A flow that is gone is on no page.
    let gone = all[3].id;
    let partition = gone.route().partition(stand.partitions);
    stand.desk(partition).purge_flow(gone);
    stand.flush(partition).await?;
    let got = read_all(stand, &FlowFilter::default(), Order::OldestFirst, MANY, MANY).await?;
    ensure!(got.len() == 24 && !ids(&got).contains(&gone), "a flow that was removed is still there");
    Ok(())
}

pub async fn every_filter_of_flows_is_applied(stand: &mut Stand) -> Check {
    let all = varied(stand, 48);
    put_all(stand, &all).await?;
    let tag = |value: &str| ("team".to_owned(), value.to_owned());
    let none = FlowFilter::default;
    let mut filters = vec![
        FlowFilter { namespace: Some(samples::namespace("a")), ..none() },
        FlowFilter { kind: Some(samples::kind("k2")), ..none() },
        FlowFilter { tags: vec![tag("Red")], ..none() },
        FlowFilter { tags: vec![tag("blue"), ("n".to_owned(), "5".to_owned())], ..none() },
        FlowFilter { created_from: Some(START + 3), ..none() },
        FlowFilter { created_before: Some(START + 3), ..none() },
        FlowFilter { created_from: Some(START + 2), created_before: Some(START + 4), ..none() },
        FlowFilter { states: vec![FlowState::Open, FlowState::Failed], ..none() },
        FlowFilter {
            namespace: Some(samples::namespace("b")),
            kind: Some(samples::kind("k")),
            states: vec![FlowState::Running],
            ..none()
        },
    ];
    filters.extend(FlowState::ALL.iter().map(|state| FlowFilter { states: vec![*state], ..none() }));
    for filter in filters {
        for order in ORDERS {
            let want: Vec<Flow> = all.iter().filter(|it| filter.matches(it)).cloned().collect();
            ensure!(!want.is_empty() && want.len() < all.len(), "{filter:?} tells nothing apart");
            let want = ids(&sorted(want, order));
            for limit in [3, MANY] {
                let got = read_all(stand, &filter, order, limit, MANY).await?;
                ensure_eq!(ids(&got), want, "pages of {limit} with {filter:?}");
            }
        }
    }
    Ok(())
}

pub async fn a_scan_of_flows_is_bounded(stand: &mut Stand) -> Check {
    let mut all = varied(stand, 60);
    // One in thirty has the tag.
    for flow in all.iter_mut().skip(29).step_by(30) {
        flow.live.tags = samples::tags(&[("rare", "yes")]);
    }
    put_all(stand, &all).await?;
    let filter = FlowFilter { tags: vec![("rare".to_owned(), "yes".to_owned())], ..FlowFilter::default() };
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        let rare: Vec<Flow> = want.iter().filter(|it| filter.matches(it)).cloned().collect();
        for scan_max in [1, 7, 30, 60, MANY] {
            let got = read_all(stand, &filter, order, 10, scan_max).await?;
            ensure_eq!(ids(&got), ids(&rare), "a scan in steps of {scan_max}");
        }
        let ask = FlowPageAsk { filter: filter.clone(), order, after: None, limit: 10, scan_max: 20 };
        let got = page(stand, ask).await?;
        ensure!(got.flows.len() < 2, "a scan of 20 has seen what is further away");
        ensure_eq!(got.next, Some(want[19].id), "where a scan of 20 goes on");
    }
    Ok(())
}

pub async fn members_of_a_flow_are_found(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let partitions = stand.partitions;
    let id = |n| samples::id(partitions, partition, n);
    let flows = [90, 91].map(|n| FlowId(id(n).0));
    let mut members = [Vec::new(), Vec::new()];
    for n in 1..=20 {
        // The order of the ids is not the order of the members.
        let (of, number) = (n as usize % 2, 40 - n);
        let member = graph_samples::member(id(n), NodeSample { flow: flows[of], number });
        stand.desk(partition).put_execution(member, START);
        stand.desk(partition).put_execution(samples::ready(id(30 + n), START, 30 + n), START);
        members[of].push(id(n));
    }
    stand.flush(partition).await?;
    for (flow, members) in flows.iter().zip(members) {
        for order in ORDERS {
            let mut want = members.clone();
            want.sort();
            if order == Order::NewestFirst {
                want.reverse();
            }
            for limit in [3, MANY] {
                let filter = Filter { flow: Some(*flow), ..Filter::default() };
                let (mut got, mut after) = (Vec::<ExecutionId>::new(), None);
                for _ in 0..MANY {
                    let ask = PageAsk { filter: filter.clone(), order, after, limit, scan_max: MANY };
                    let page = stand.store.executions(ask).await.map_err(|error| error.to_string())?;
                    got.extend(page.executions.iter().map(|it| it.id));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                ensure_eq!(got, want, "members in pages of {limit}, {order:?}");
            }
        }
    }
    Ok(())
}
