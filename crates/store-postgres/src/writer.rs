//! The way of a commit: one connection for each share of the partitions, calls in the order in which they were
//! made, many on their way at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
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

type InFlight = Pin<Box<dyn Future<Output = (oneshot::Sender<Vec<Outcome>>, Vec<Outcome>)> + Send>>;

/// Takes in jobs until nobody can send one any more and all are answered.
pub(crate) async fn run(
    link: Arc<Link>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    clock: Option<Arc<dyn Clock>>,
    counters: Arc<Counters>,
) {
    let mut in_flight: FuturesUnordered<InFlight> = FuturesUnordered::new();
    loop {
        let job = tokio::select! {
            biased;
            Some((reply, outcomes)) = in_flight.next(), if !in_flight.is_empty() => {
                let _ = reply.send(outcomes);
                continue;
            }
            job = jobs.recv() => job,
        };
        let Some(Job { commits, reply }) = job else { break };
        let count = commits.len();
        match link.client().await {
            Ok(client) => {
                let now = clock.as_ref().map(|clock| clock.now());
                let place = link.place.shown().to_owned();
                let counters = counters.clone();
                let mut call: InFlight = Box::pin(async move {
                    let outcomes = send(&place, &client, &commits, now, &counters).await;
                    (reply, outcomes)
                });
                // The first look sends it: what comes later is sent later.
                match std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await {
                    Poll::Ready((reply, outcomes)) => drop(reply.send(outcomes)),
                    Poll::Pending => in_flight.push(call),
                }
            }
            Err(error) => {
                add(&counters.failures, count as u64);
                let _ = reply.send(vec![Outcome::Failed(error); count]);
            }
        }
    }
    while let Some((reply, outcomes)) = in_flight.next().await {
        let _ = reply.send(outcomes);
    }
}

async fn send(
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
    let row = client.query_typed_one(&CALL, &params).await?;
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
