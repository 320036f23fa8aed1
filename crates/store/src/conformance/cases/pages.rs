//! Pages of executions: both orders, every filter, and a bound on how much is looked at.

use ff_core::attempt::TaskError;
use ff_core::execution::{End, Execution, State};
use ff_core::query::{Filter, Order, Page, PageAsk};
use ff_core::state::{PublicState, Reason};
use ff_core::{ExecutionId, Ms};

use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, samples};

const ORDERS: [Order; 2] = [Order::OldestFirst, Order::NewestFirst];
const MANY: usize = 1_000;

async fn page(stand: &Stand, ask: PageAsk) -> Result<Page, String> {
    stand.store.executions(ask).await.map_err(|error| error.to_string())
}

/// Reads all pages; `next` must lead to the end, and each page must keep to its bounds.
async fn read_all(
    stand: &Stand,
    filter: &Filter,
    order: Order,
    limit: usize,
    scan_max: usize,
) -> Result<Vec<Execution>, String> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..MANY {
        let ask = PageAsk { filter: filter.clone(), order, after, limit, scan_max };
        let page = page(stand, ask).await?;
        ensure!(page.executions.len() <= limit, "{} came where at most {limit} may", page.executions.len());
        ensure!(page.executions.len() <= scan_max, "more came than may be looked at");
        if let (Some(next), Some(after)) = (page.next, after) {
            let forward = if order == Order::OldestFirst { next > after } else { next < after };
            ensure!(forward, "the page after {after} leads to {next}");
        }
        all.extend(page.executions);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
    Err(format!("the pages of {limit} do not end"))
}

fn ids(executions: &[Execution]) -> Vec<ExecutionId> {
    executions.iter().map(|it| it.id).collect()
}

/// The order the pages must have.
fn sorted(mut executions: Vec<Execution>, order: Order) -> Vec<Execution> {
    executions.sort_by_key(|it| it.id);
    if order == Order::NewestFirst {
        executions.reverse();
    }
    executions
}

async fn put_all(stand: &mut Stand, executions: Vec<Execution>) -> Result<Vec<Execution>, String> {
    let ids: Vec<ExecutionId> = executions.iter().map(|it| it.id).collect();
    let home = |stand: &Stand, id: ExecutionId| id.route().partition(stand.partitions);
    for it in executions {
        let partition = home(stand, it.id);
        stand.desk(partition).put_execution(it, START);
    }
    stand.flush_all().await?;
    let mut written = Vec::new();
    for id in ids {
        let partition = home(stand, id);
        let it = stand.desk(partition).execution(id).ok().flatten();
        written.push((**it.ok_or("the desk knows what it wrote")?).clone());
    }
    Ok(written)
}

/// Executions over all partitions, whose ids take turns.
fn spread(stand: &Stand, count: u64) -> impl Iterator<Item = Execution> + use<> {
    let partitions = stand.partitions;
    (0..count).map(move |n| {
        let partition = ff_core::PartitionId((n * 7 % u64::from(partitions)) as u16);
        samples::ready(samples::id(partitions, partition, n), START, n + 1)
    })
}

pub async fn pages_cover_everything_in_both_orders(stand: &mut Stand) -> Check {
    let all = spread(stand, 25).collect();
    let all = put_all(stand, all).await?;
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        for limit in [1, 4, 24, 25, 26, MANY] {
            let got = read_all(stand, &Filter::default(), order, limit, MANY).await?;
            ensure_eq!(ids(&got), ids(&want), "pages of {limit}, {order:?}");
            ensure_eq!(got, want, "records of pages of {limit}");
        }
        for at in [0, 11, 24] {
            let after = Some(want[at].id);
            let ask = PageAsk { filter: Filter::default(), order, after, limit: 3, scan_max: MANY };
            let got = page(stand, ask).await?;
            let end = (at + 4).min(want.len());
            ensure_eq!(ids(&got.executions), ids(&want[at + 1..end]), "the page after {after:?}");
        }
        let ask = PageAsk { filter: Filter::default(), order, after: None, limit: MANY, scan_max: MANY };
        ensure_eq!(page(stand, ask).await?.next, None, "what follows a page that holds everything");
    }
    Ok(())
}

/// Executions that differ in everything a filter can ask for.
fn varied(stand: &Stand) -> Vec<Execution> {
    let instances = [1, 2].map(|n| samples::instance(stand.partitions, ff_core::PartitionId(0), n));
    let states = samples::states(instances[0]);
    let mut all: Vec<Execution> = spread(stand, 48).collect();
    for (n, it) in all.iter_mut().enumerate() {
        let mut spec = (*it.spec).clone();
        spec.namespace = samples::namespace(["a", "b"][n % 2]);
        spec.lane = samples::lane_name(["x", "X", "y z"][n % 3]);
        spec.kind = samples::kind(["k", "k2"][n / 2 % 2]);
        spec.created_at = START + n as Ms / 4;
        it.spec = spec.into();
        let state = &states[n % states.len()];
        if !matches!(state, State::Ready { .. }) {
            it.live.state = state.clone();
        }
        if n % 3 != 0 {
            it.live.tags = samples::tags(&[("team", ["red", "Red", "blue"][n % 3]), ("n", &n.to_string())]);
        }
        if n % 2 == 1 {
            let mut attempt = samples::attempt(1, instances[n / 2 % 2]);
            attempt.worker = samples::worker_name(["w", "W", "w2"][n % 3]);
            let error = TaskError::new(["e1", "e2"][n / 4 % 2], format!("It BROKE at 100% of ÄRA {n}"));
            attempt.end = attempt.end.map(|end| ff_core::attempt::AttemptEnd { error: Some(error), ..end });
            it.live.attempt = Some(attempt);
        }
        if n % 8 == 7 {
            let (state, reason) = (PublicState::Failed, Reason::AttemptsExhausted);
            let error = Some(TaskError::new("final", "The end_of 'it'"));
            let (result_bytes, cancelled, remove_at) = (None, None, START + 9);
            let end =
                End { state, reason, at: START, error, result_bytes, cancelled, upstream: None, remove_at };
            it.live.state = State::Ended(end);
        }
    }
    all
}

pub async fn every_filter_is_applied(stand: &mut Stand) -> Check {
    let all = varied(stand);
    let all = put_all(stand, all).await?;
    let tag = |value: &str| ("team".to_owned(), value.to_owned());
    let instance = samples::instance(stand.partitions, ff_core::PartitionId(0), 2);
    let none = Filter::default;
    let mut filters = vec![
        Filter { namespace: Some(samples::namespace("a")), ..none() },
        Filter { lane: Some(samples::lane_name("X")), ..none() },
        Filter { lane: Some(samples::lane_name("y z")), ..none() },
        Filter { kind: Some(samples::kind("k")), ..none() },
        Filter { tags: vec![tag("red")], ..none() },
        Filter { tags: vec![tag("blue"), ("n".to_owned(), "5".to_owned())], ..none() },
        Filter { created_from: Some(START + 3), ..none() },
        Filter { created_before: Some(START + 3), ..none() },
        Filter { created_from: Some(START + 2), created_before: Some(START + 4), ..none() },
        Filter { worker: Some(samples::worker_name("W")), ..none() },
        Filter { instance: Some(instance), ..none() },
        Filter { error_code: Some("e1".to_owned()), ..none() },
        Filter { error_code: Some("final".to_owned()), ..none() },
        Filter { error_text: Some("it broke".to_owned()), ..none() },
        Filter { error_text: Some("ära 3".to_owned()), ..none() },
        Filter { error_text: Some("100%".to_owned()), ..none() },
        Filter { error_text: Some("END_OF 'IT'".to_owned()), ..none() },
        Filter { states: vec![PublicState::Waiting, PublicState::Failed], ..none() },
        Filter {
            namespace: Some(samples::namespace("b")),
            kind: Some(samples::kind("k2")),
            states: vec![PublicState::Active, PublicState::Failed],
            ..none()
        },
    ];
    filters.extend(PublicState::ALL.iter().map(|state| Filter { states: vec![*state], ..none() }));
    filters.extend(Reason::ALL.iter().map(|reason| Filter { reason: Some(*reason), ..none() }));
    for filter in filters {
        for order in ORDERS {
            let want: Vec<Execution> = all.iter().filter(|it| filter.matches(it)).cloned().collect();
            let want = ids(&sorted(want, order));
            for limit in [3, MANY] {
                let got = read_all(stand, &filter, order, limit, MANY).await?;
                ensure_eq!(ids(&got), want, "pages of {limit} with {filter:?}");
            }
        }
    }
    Ok(())
}

pub async fn a_scan_is_bounded(stand: &mut Stand) -> Check {
    let all: Vec<Execution> = spread(stand, 60)
        .enumerate()
        .map(|(n, mut it)| {
            // One in thirty has the tag.
            if n % 30 == 29 {
                it.live.tags = samples::tags(&[("rare", "yes")]);
            }
            it
        })
        .collect();
    let all = put_all(stand, all).await?;
    let filter = Filter { tags: vec![("rare".to_owned(), "yes".to_owned())], ..Filter::default() };
    for order in ORDERS {
        let want = sorted(all.clone(), order);
        let rare: Vec<_> = want.iter().filter(|it| filter.matches(it)).cloned().collect();
        for scan_max in [1, 7, 30, 60, MANY] {
            let got = read_all(stand, &filter, order, 10, scan_max).await?;
            ensure_eq!(ids(&got), ids(&rare), "a scan in steps of {scan_max}");
        }
        let ask = PageAsk { filter: filter.clone(), order, after: None, limit: 10, scan_max: 20 };
        let got = page(stand, ask).await?;
        ensure!(got.executions.len() < 2, "a scan of 20 has seen what is further away");
        ensure_eq!(got.next, Some(want[19].id), "where a scan of 20 goes on");
    }
    Ok(())
}
