//! The way of a commit: one connection for each share of the partitions, calls in the order in which they were
//! made, many on their way at once.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use ff_core::Ms;
use ff_store::{Clock, Commit, Outcome, StoreError};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::columns::{COUNT, Columns, Param};
use crate::error::outcome;
use crate::link::Link;
use crate::stats::{Counters, add};

/// The call of the commit function with all its arguments.
pub(crate) static CALL: LazyLock<String> = LazyLock::new(|| {
    let arguments: Vec<String> = (1..=COUNT + 2).map(|n| format!("${n}")).collect();
    format!("SELECT won, now_ms FROM flowfabric.commit_1({})", arguments.join(", "))
});

/// The same with what goes to the registry, as its last argument.
static CALL_WITH_REGISTRY: LazyLock<String> = LazyLock::new(|| {
    let registry = format!("flowfabric.commit_registry_1(won, ${})", COUNT + 3);
    CALL.replace("won, now_ms", &format!("won, now_ms, {registry}"))
});

/// How many calls are on their way on one connection at once: the server has the next one at hand when it has done
/// one.
const AHEAD: usize = 2;
/// And where other servers write too: their calls are at hand, and each call that is not made leaves them room.
const AHEAD_SHARED: usize = 1;
/// A call of so many records takes no more.
const ROWS_MAX: usize = 4_096;

/// Commits of different partitions that are written together, and who waits for what becomes of them.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) commits: Vec<Commit>,
    pub(crate) reply: oneshot::Sender<Vec<Outcome>>,
}

/// Splits commits into calls: by the connection that writes their partition, and so that no call has two of one
/// partition. Each comes with the places of its commits in the list.
pub(crate) fn shares(
    commits: impl IntoIterator<Item = (usize, Commit)>,
    writers: usize,
) -> Vec<(Vec<usize>, Vec<Commit>)> {
    let mut calls: Vec<(Vec<usize>, Vec<Commit>)> = Vec::new();
    for (place, commit) in commits {
        let share = usize::from(commit.partition.0) % writers;
        let same_share = |call: &(Vec<usize>, Vec<Commit>)| {
            call.1.first().is_some_and(|it| usize::from(it.partition.0) % writers == share)
        };
        // Behind the newest commit of its partition, never before it.
        match calls.iter_mut().rev().find(|call| same_share(call)) {
            Some((places, list)) if list.iter().all(|it| it.partition != commit.partition) => {
                places.push(place);
                list.push(commit);
            }
            _ => calls.push((vec![place], vec![commit])),
        }
    }
    calls
}

/// How many outcomes each who waits wants, in order.
type Replies = Vec<(usize, oneshot::Sender<Vec<Outcome>>)>;

/// Several jobs that go to the server in one call, none with a partition of another.
#[derive(Debug, Default)]
struct Call {
    commits: Vec<Commit>,
    replies: Replies,
}

impl Call {
    fn takes(&self, job: &Job) -> bool {
        let known = |commit: &Commit| self.commits.iter().any(|it| it.partition == commit.partition);
        let rows: usize = self.commits.iter().map(|commit| commit.changes.rows()).sum();
        self.commits.is_empty() || (rows < ROWS_MAX && !job.commits.iter().any(known))
    }

    fn add(&mut self, job: Job) {
        self.replies.push((job.commits.len(), job.reply));
        self.commits.extend(job.commits);
    }
}

fn answer(replies: Replies, outcomes: Vec<Outcome>) {
    let mut outcomes = outcomes.into_iter();
    for (count, reply) in replies {
        let _ = reply.send(outcomes.by_ref().take(count).collect());
    }
}

type InFlight = Pin<Box<dyn Future<Output = (Replies, Vec<Outcome>)> + Send>>;

/// Takes in jobs until nobody can send one any more and all are answered. What arrives while enough calls are on
/// their way becomes one call, because most of the cost of a small call is that it is one.
pub(crate) async fn run(
    link: Arc<Link>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    clock: Option<Arc<dyn Clock>>,
    counters: Arc<Counters>,
    shared: Arc<AtomicBool>,
) {
    let mut in_flight: FuturesUnordered<InFlight> = FuturesUnordered::new();
    let mut waiting: VecDeque<Job> = VecDeque::new();
    let mut open = true;
    while open || !waiting.is_empty() || !in_flight.is_empty() {
        let ahead = if shared.load(Ordering::Relaxed) { AHEAD_SHARED } else { AHEAD };
        if in_flight.len() < ahead && !waiting.is_empty() {
            let mut call = Call::default();
            while let Some(job) = waiting.pop_front_if(|job| call.takes(job)) {
                call.add(job);
            }
            let Call { commits, replies } = call;
            match link.client().await {
                Ok(client) => {
                    let now = clock.as_ref().map(|clock| clock.now());
                    let place = link.place.shown().to_owned();
                    let counters = counters.clone();
                    let mut call: InFlight = Box::pin(async move {
                        let outcomes = send(&place, &client, &commits, now, &counters).await;
                        (replies, outcomes)
                    });
                    // The first look sends it: what comes later is sent later.
                    match std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await {
                        Poll::Ready((replies, outcomes)) => answer(replies, outcomes),
                        Poll::Pending => in_flight.push(call),
                    }
                }
                Err(error) => {
                    add(&counters.failures, commits.len() as u64);
                    answer(replies, vec![Outcome::Failed(error); commits.len()]);
                }
            }
            continue;
        }
        tokio::select! {
            biased;
            Some((replies, outcomes)) = in_flight.next(), if !in_flight.is_empty() => answer(replies, outcomes),
            job = jobs.recv(), if open => {
                open = job.is_some();
                waiting.extend(job);
                while let Ok(job) = jobs.try_recv() {
                    waiting.push_back(job);
                }
            }
        }
    }
}

/// Sends commits in one call. If the server refuses that for what is in it, each goes alone: the others must not
/// suffer for one.
async fn send(
    place: &str,
    client: &Client,
    commits: &[Commit],
    now: Option<Ms>,
    counters: &Counters,
) -> Vec<Outcome> {
    let outcomes = send_together(place, client, commits, now, counters).await;
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed(StoreError::Refused(_)));
    if commits.len() == 1 || !outcomes.iter().all(refused) {
        return outcomes;
    }
    let mut outcomes = Vec::with_capacity(commits.len());
    for commit in commits {
        outcomes.extend(send_together(place, client, std::slice::from_ref(commit), now, counters).await);
    }
    outcomes
}

async fn send_together(
    place: &str,
    client: &Client,
    commits: &[Commit],
    now: Option<Ms>,
    counters: &Counters,
) -> Vec<Outcome> {
    let columns = match Columns::of(commits) {
        Ok(columns) => columns,
        Err(error) => {
            let text = format!("a record cannot be written: {error}");
            return vec![Outcome::Failed(StoreError::Refused(text)); commits.len()];
        }
    };
    let outcomes = match call(client, &columns, commits, now).await {
        Ok((won, now)) => {
            let outcome = |commit: &Commit| match won.contains(&i32::from(commit.partition.0)) {
                true => Outcome::Committed { now },
                false => Outcome::Conflict,
            };
            commits.iter().map(outcome).collect()
        }
        Err(error) => vec![outcome(place, &error); commits.len()],
    };
    count(counters, commits, &outcomes);
    outcomes
}

async fn call(
    client: &Client,
    columns: &Columns<'_>,
    commits: &[Commit],
    now: Option<Ms>,
) -> Result<(Vec<i32>, Ms), Error> {
    let by = commits.first().map(|commit| commit.by.0);
    let mut params: Vec<Param<'_>> = Vec::with_capacity(COUNT + 2);
    params.push((&now as &(dyn ToSql + Sync), Type::INT8));
    params.push((&by, Type::UUID));
    params.extend(columns.params());
    let call: &str = match &columns.registry {
        None => &CALL,
        Some(_) => {
            params.push((&columns.registry, Type::TEXT));
            &CALL_WITH_REGISTRY
        }
    };
    let row = client.query_typed_one(call, &params).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn count(counters: &Counters, commits: &[Commit], outcomes: &[Outcome]) {
    let mut rows = 0;
    for (commit, outcome) in commits.iter().zip(outcomes) {
        match outcome {
            Outcome::Committed { .. } => {
                add(&counters.commits, 1);
                rows += commit.changes.rows() as u64;
            }
            Outcome::Conflict => add(&counters.conflicts, 1),
            Outcome::Unknown(_) | Outcome::Failed(_) => add(&counters.failures, 1),
        }
    }
    counters.call(rows);
}
