//! Open waitpoints: they come and go with what executions say, and are found by pages in both orders and by filters.

use ff_core::execution::State;
use ff_core::query::{Order, WaitpointFilter, WaitpointPage, WaitpointPageAsk};
use ff_core::state::Reason;
use ff_core::suspension::{Condition, Match, Suspension, Waitpoint, WaitpointEntry, WaitpointId};
use ff_core::workspace::waitpoint_entries;
use ff_core::{Execution, PartitionId};

use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, mail_samples, samples};

const ORDERS: [Order; 2] = [Order::OldestFirst, Order::NewestFirst];
const MANY: usize = 1_000;

async fn page(stand: &Stand, ask: WaitpointPageAsk) -> Result<WaitpointPage, String> {
    stand.store.waitpoints(ask).await.map_err(|error| error.to_string())
}

/// Reads all pages; `next` must lead to the end, and each page must keep to its bounds.
async fn read_all(
    stand: &Stand,
    filter: &WaitpointFilter,
    order: Order,
    limit: usize,
    scan_max: usize,
) -> Result<Vec<WaitpointEntry>, String> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..MANY {
        let ask = WaitpointPageAsk { filter: filter.clone(), order, after, limit, scan_max };
        let page = page(stand, ask).await?;
        ensure!(page.waitpoints.len() <= limit.min(scan_max), "{} came on one page", page.waitpoints.len());
        if let (Some(next), Some(after)) = (page.next, after) {
            let forward = if order == Order::OldestFirst { next > after } else { next < after };
            ensure!(forward, "the page after {after} leads to {next}");
        }
        all.extend(page.waitpoints);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
    Err(format!("the pages of {limit} do not end"))
}

fn ids(entries: &[WaitpointEntry]) -> Vec<WaitpointId> {
    entries.iter().map(|it| it.id).collect()
}

fn sorted(mut entries: Vec<WaitpointEntry>, order: Order) -> Vec<WaitpointEntry> {
    entries.sort_by_key(|it| it.id);
    if order == Order::NewestFirst {
        entries.reverse();
    }
    entries
}

/// Where the n-th record of a case lives.
fn home(stand: &Stand, n: u64) -> PartitionId {
    PartitionId((n * 7 % u64::from(stand.partitions)) as u16)
}

fn suspended(about: u32, reason: Reason) -> State {
    let condition = Condition::Signal(Match::waitpoint(about));
    let all = mail_samples::suspensions().swap_remove(0);
    State::Suspended(Box::new(Suspension { condition, reason, ..all }))
}

/// Executions over all partitions with one to twelve waitpoints each, which differ in everything a filter can ask for.
fn varied(stand: &Stand, count: u64) -> Vec<Execution> {
    let execution = |n: u64| {
        let id = samples::id(stand.partitions, home(stand, n), n);
        let mut it = samples::ready(id, START, n);
        let spec = std::sync::Arc::make_mut(&mut it.spec);
        spec.namespace = samples::namespace(["a", "b"][n as usize % 2]);
        spec.kind = samples::kind(["k", "k2"][n as usize / 2 % 2]);
        spec.lane = samples::lane_name(["l", "L ä"][n as usize / 3 % 2]);
        // Numbers of two digits, so that an order by their text is noticed.
        let numbers = (1..=1 + n as u32 % 3).chain(n.is_multiple_of(4).then_some(12));
        let named = |number: u32| ["go", "Go", "approve/漢'\""][(number as usize + n as usize) % 3];
        let waitpoint = |number| {
            let name = (!n.is_multiple_of(5)).then(|| named(number));
            let plain = mail_samples::waitpoint(number, name);
            let full = mail_samples::mailbox().waitpoints.swap_remove(1);
            if number % 2 == 0 { plain } else { Waitpoint { number, name: plain.name, ..full } }
        };
        let mut it = mail_samples::waiting(it, numbers.map(waitpoint).collect());
        if !n.is_multiple_of(3) {
            it.live.state =
                suspended(1, [Reason::WaitingForApproval, Reason::WaitingForCallback][n as usize % 2]);
        }
        it
    };
    (0..count).map(execution).collect()
}

async fn put_all(stand: &mut Stand, executions: &[Execution]) -> Result<Vec<WaitpointEntry>, String> {
    for execution in executions {
        let partition = execution.id.route().partition(stand.partitions);
        stand.desk(partition).put_execution(execution.clone(), START);
    }
    stand.flush_all().await?;
    Ok(executions.iter().flat_map(waitpoint_entries).collect())
}

pub async fn waitpoints_open_change_and_close(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let partitions = stand.partitions;
    let id = |n| samples::id(partitions, partition, n);
    let neighbour =
        mail_samples::waiting(samples::ready(id(2), START, 2), vec![mail_samples::waitpoint(1, Some("go"))]);
    let full = || mail_samples::mailbox().waitpoints;
    let ready = || samples::ready(id(1), START, 1);
    let parked = |about, reason| samples::with_state(ready(), suspended(about, reason));
    let lives = [
        mail_samples::waiting(ready(), full()),
        // Only the waitpoint that is waited for has the reason.
        mail_samples::waiting(parked(3, Reason::WaitingForApproval), full()),
        mail_samples::waiting(parked(2, Reason::OperatorReview), full()),
        mail_samples::waiting(ready(), full()[1..].to_vec()),
        mail_samples::waiting(ready(), vec![mail_samples::waitpoint(12, None), full().swap_remove(1)]),
        ready(),
    ];
    let mut want: Vec<WaitpointEntry> = put_all(stand, std::slice::from_ref(&neighbour)).await?;
    for life in lives {
        want.retain(|entry| entry.id.execution == neighbour.id);
        want.extend(put_all(stand, &[life]).await?);
        let got = read_all(stand, &WaitpointFilter::default(), Order::OldestFirst, MANY, MANY).await?;
        ensure_eq!(got, sorted(want.clone(), Order::OldestFirst), "open waitpoints");
        stand.same().await?;
    }
    stand.desk(partition).purge_execution(neighbour.id);
    stand.flush(partition).await?;
    let got = read_all(stand, &WaitpointFilter::default(), Order::OldestFirst, MANY, MANY).await?;
    ensure_eq!(got, [], "open waitpoints after their execution was removed");
    Ok(())
}

pub async fn pages_of_waitpoints_cover_everything_in_both_orders(stand: &mut Stand) -> Check {
    let all = varied(stand, 20);
    let all = put_all(stand, &all).await?;
    let count = all.len();
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        for limit in [1, 4, count - 1, count, count + 1, MANY] {
            let got = read_all(stand, &WaitpointFilter::default(), order, limit, MANY).await?;
            ensure_eq!(ids(&got), ids(&want), "pages of {limit}, {order:?}");
            ensure_eq!(got, want, "records of pages of {limit}");
        }
        for at in [0, 11, count - 1] {
            let (filter, after) = (WaitpointFilter::default(), Some(want[at].id));
            let ask = WaitpointPageAsk { filter, order, after, limit: 3, scan_max: MANY };
            let end = (at + 4).min(want.len());
            let got = page(stand, ask).await?;
            ensure_eq!(ids(&got.waitpoints), ids(&want[at + 1..end]), "the page after {after:?}");
        }
    }
    Ok(())
}

pub async fn every_filter_of_waitpoints_is_applied(stand: &mut Stand) -> Check {
    let executions = varied(stand, 48);
    let all = put_all(stand, &executions).await?;
    let none = WaitpointFilter::default;
    let name = |text: &str| Some(text.parse().expect("samples have good names"));
    let mut filters = vec![
        WaitpointFilter { namespace: Some(samples::namespace("a")), ..none() },
        WaitpointFilter { kind: Some(samples::kind("k2")), ..none() },
        WaitpointFilter { lane: Some(samples::lane_name("L ä")), ..none() },
        WaitpointFilter { name: name("go"), ..none() },
        WaitpointFilter { name: name("approve/漢'\""), ..none() },
        WaitpointFilter { reason: Some(Reason::WaitingForApproval), ..none() },
        WaitpointFilter {
            namespace: Some(samples::namespace("b")),
            lane: Some(samples::lane_name("l")),
            name: name("go"),
            ..none()
        },
    ];
    for n in [0, 8, 47] {
        filters.push(WaitpointFilter { execution: Some(executions[n].id), ..none() });
    }
    filters.push(WaitpointFilter { name: name("go"), execution: Some(executions[8].id), ..none() });
    for filter in filters {
        let fits: Vec<WaitpointEntry> = all.iter().filter(|it| filter.matches(it)).cloned().collect();
        ensure!(!fits.is_empty() && fits.len() < all.len(), "{filter:?} tells nothing apart");
        for order in ORDERS {
            let want = ids(&sorted(fits.clone(), order));
            for limit in [1, 3, MANY] {
                let got = read_all(stand, &filter, order, limit, MANY).await?;
                ensure_eq!(ids(&got), want, "pages of {limit} with {filter:?}, {order:?}");
            }
        }
    }
    // A page that starts outside of the one execution asked for.
    for order in ORDERS {
        let filter = WaitpointFilter { execution: Some(executions[8].id), ..none() };
        for n in [0, 47] {
            let after = Some(WaitpointId { execution: executions[n].id, number: 1 });
            let ask = WaitpointPageAsk { filter: filter.clone(), order, after, limit: MANY, scan_max: MANY };
            let mut want = sorted(all.iter().filter(|it| filter.matches(it)).cloned().collect(), order);
            want.retain(|it| (Some(it.id) > after) == (order == Order::OldestFirst));
            let got = page(stand, ask).await?;
            ensure_eq!(ids(&got.waitpoints), ids(&want), "the page of one execution after {after:?}");
            ensure_eq!(got.next, None, "where it goes on");
        }
    }
    Ok(())
}

pub async fn a_scan_of_waitpoints_is_bounded(stand: &mut Stand) -> Check {
    let mut executions = varied(stand, 60);
    for it in executions.iter_mut() {
        it.live.mailbox = None;
        *it = mail_samples::waiting(it.clone(), vec![mail_samples::waitpoint(1, Some("common"))]);
    }
    // One in thirty has the name.
    for it in executions.iter_mut().skip(29).step_by(30) {
        *it = mail_samples::waiting(it.clone(), vec![mail_samples::waitpoint(1, Some("rare"))]);
    }
    let all = put_all(stand, &executions).await?;
    let name = Some("rare".parse().expect("samples have good names"));
    let filter = WaitpointFilter { name, ..WaitpointFilter::default() };
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        let rare: Vec<WaitpointEntry> = want.iter().filter(|it| filter.matches(it)).cloned().collect();
        for scan_max in [1, 7, 30, 60, MANY] {
            let got = read_all(stand, &filter, order, 10, scan_max).await?;
            ensure_eq!(ids(&got), ids(&rare), "a scan in steps of {scan_max}");
        }
        let ask = WaitpointPageAsk { filter: filter.clone(), order, after: None, limit: 10, scan_max: 20 };
        let got = page(stand, ask).await?;
        ensure!(got.waitpoints.len() < 2, "a scan of 20 has seen what is further away");
        ensure_eq!(got.next, Some(want[19].id), "where a scan of 20 goes on");
    }
    Ok(())
}
