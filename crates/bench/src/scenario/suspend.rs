//! Suspend: from a handler that suspends, over the signal, to the handler that runs again; many at once, one at a
//! time, and a great many that are all suspended before the first signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flowfabric::{
    Context, EventFilter, ExecutionId, Fabric, Fact, Family, Filter, PublicState, Start, Submission, Worker,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew};
use crate::figures::{percentile_ms, rss_mib};
use crate::ground::Kind;
use crate::report::Report;
use crate::{Args, Setting, raw};

const KIND: &str = "suspend";
const NAME: &str = "go";
const COUNT: usize = 100_000;
/// How many are in flight, and how often each of them suspends.
const IN_FLIGHT: usize = 512;
const TRIPS: usize = 10;
const ALONE: usize = 300;
const WARM_UP: usize = 10;
/// How many callers signal.
const CALLERS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let in_flight = IN_FLIGHT.min(count);
    let (mut rounds, mut problems, mut alone, mut cost) = (Vec::new(), Vec::new(), Vec::new(), (None, None));
    for _ in 0..args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        alone = one_at_a_time(&bed, args, count.min(ALONE)).await?;
        let before = bed.cost()?;
        rounds.push(many(&bed, args, in_flight).await?);
        cost = (before, bed.cost()?);
        problems.extend(bed.close().await?);
    }
    let mut report = of_rounds(rounds, in_flight * TRIPS);
    report.problems = problems;
    report.p50_ms = percentile_ms(&alone, 0.5);
    report.p99_ms = percentile_ms(&alone, 0.99);
    report.more.insert("in flight".to_owned(), in_flight as f64);
    add_store_cost(&mut report, cost.0, cost.1, in_flight * TRIPS);
    if setting.kind != Kind::Memory {
        let bed = Bed::make(args, setting, true).await?;
        bed.start_recording();
        let start = raw::Start::of(&bed, bed.take_recorded()).await?;
        many(&bed, args, in_flight).await?;
        raw::compare(&mut report, start, bed.take_recorded(), in_flight * TRIPS).await?;
        report.problems.extend(bed.close().await?);
    }
    great_many(args, setting, count, &mut report).await?;
    Ok(report)
}

/// Suspends as often as it is told, and says when it runs again.
fn worker(fabric: &Fabric, args: &Args, runs_again: Option<mpsc::UnboundedSender<Instant>>) -> Worker {
    Worker::new(fabric).name("bench").concurrency(args.concurrency).on(
        KIND,
        move |ctx: Context, trips: usize| {
            let runs_again = runs_again.clone();
            async move {
                for _ in 0..trips {
                    ctx.wait_for_signal::<()>(NAME).await?;
                }
                if let Some(runs_again) = runs_again {
                    let _ = runs_again.send(Instant::now());
                }
                Ok(())
            }
        },
    )
}

/// From the moment at which the handler has started, so that suspending is part of it, to its running again.
async fn one_at_a_time(bed: &Bed, args: &Args, count: usize) -> anyhow::Result<Vec<Duration>> {
    let bar = bar("one at a time", count as u64);
    let (sender, mut runs_again) = mpsc::unbounded_channel();
    let crew = Crew::of(worker(&bed.fabric, args, Some(sender)));
    let filter = EventFilter { families: vec![Family::Execution, Family::Signal], ..EventFilter::default() };
    let mut events = bed.fabric.events(filter, Start::Now).await?;
    let mut latencies = Vec::with_capacity(count);
    for n in 0..WARM_UP + count {
        let run = bed.fabric.submit(KIND, &1).await?;
        let mut started = Instant::now();
        loop {
            match events.next().await?.event.fact {
                Fact::Started { .. } => started = Instant::now(),
                Fact::Suspended { .. } => break,
                _ => {}
            }
        }
        run.signal(NAME).await?;
        let again = runs_again.recv().await.unwrap_or_else(Instant::now);
        run.wait().await?;
        if n >= WARM_UP {
            latencies.push(again.duration_since(started));
            bar.inc(1);
        }
    }
    crew.stop().await?;
    bar.finish_and_clear();
    latencies.sort();
    Ok(latencies)
}

/// Round trips a second with many executions, each of which is signalled as soon as it is suspended.
async fn many(bed: &Bed, args: &Args, in_flight: usize) -> anyhow::Result<f64> {
    let trips = in_flight * TRIPS;
    let bar = bar("many at once", trips as u64);
    let filter = EventFilter { families: vec![Family::Execution, Family::Signal], ..EventFilter::default() };
    let mut events = bed.fabric.events(filter, Start::Now).await?;
    let before = bed.completed().await?;
    let started = Instant::now();
    let crew = Crew::of(worker(&bed.fabric, args, None));
    bed.fill(in_flight, |_| Submission::new(KIND, &TRIPS), |_| {}).await?;
    let mut signals = JoinSet::new();
    let mut ended = 0;
    while ended < in_flight {
        let event = tokio::time::timeout(PATIENCE, events.next()).await??.event;
        match (&event.fact, event.execution) {
            (Fact::Suspended { .. }, Some(id)) => {
                let call = bed.fabric.signal(id, NAME);
                signals.spawn(async move { call.await.map(drop) });
                bar.inc(1);
            }
            (fact, _) if fact.ends() => ended += 1,
            _ => {}
        }
    }
    let elapsed = started.elapsed();
    while let Some(sent) = signals.join_next().await {
        sent??;
    }
    bar.finish_and_clear();
    crew.stop().await?;
    anyhow::ensure!(bed.completed().await? == before + in_flight as u64, "not all of them completed");
    Ok(rate(trips, elapsed))
}

/// All are suspended before the first is signalled.
async fn great_many(args: &Args, setting: &Setting, count: usize, report: &mut Report) -> anyhow::Result<()> {
    let bed = Bed::make(args, setting, false).await?;
    let bar = bar("suspended", count as u64);
    let started = Instant::now();
    let crew = Crew::of(worker(&bed.fabric, args, None));
    // What is in memory anyway, and what is cached up to its limit, is there after the first half.
    let half = count / 2;
    bed.fill(half, |_| Submission::new(KIND, &1), |_| {}).await?;
    until(&bed, PublicState::Suspended, half).await?;
    let before = rss_mib();
    bed.fill(count - half, |_| Submission::new(KIND, &1), |_| {}).await?;
    until(&bed, PublicState::Suspended, count).await?;
    report.more.insert("suspended/s".to_owned(), rate(count, started.elapsed()));
    report.more.insert("suspended".to_owned(), count as f64);
    report.more.insert("rss with half suspended, MiB".to_owned(), before);
    report.more.insert("rss with all suspended, MiB".to_owned(), rss_mib());
    let grown = (rss_mib() - before) * 1_048_576.0 / (count - half).max(1) as f64;
    report.more.insert("bytes resident for each of the second half".to_owned(), grown);
    let ids = ids(&bed, count).await?;
    let started = Instant::now();
    signal_all(&bed.fabric, ids).await?;
    until(&bed, PublicState::Completed, count).await?;
    report.more.insert("signalled and ended/s".to_owned(), rate(count, started.elapsed()));
    bar.finish_and_clear();
    crew.stop().await?;
    report.problems.extend(bed.close().await?);
    Ok(())
}

async fn until(bed: &Bed, state: PublicState, count: usize) -> anyhow::Result<()> {
    let filter = Filter { states: vec![state], ..Filter::default() };
    let started = Instant::now();
    while bed.fabric.count(&filter).await?.count < count as u64 {
        anyhow::ensure!(started.elapsed() < PATIENCE, "not all are {state} after five minutes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn ids(bed: &Bed, count: usize) -> anyhow::Result<Vec<ExecutionId>> {
    let mut ids = Vec::with_capacity(count);
    let mut cursor = None;
    loop {
        let list = bed.fabric.search().limit(1_000);
        let page = match cursor {
            Some(cursor) => list.cursor(cursor).await?,
            None => list.await?,
        };
        ids.extend(page.executions.iter().map(|it| it.id));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(ids),
        }
    }
}

async fn signal_all(fabric: &Fabric, ids: Vec<ExecutionId>) -> anyhow::Result<()> {
    let (ids, next) = (Arc::new(ids), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS.min(ids.len()) {
        let (fabric, ids, next) = (fabric.clone(), ids.clone(), next.clone());
        callers.spawn(async move {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                fabric.signal(*id, NAME).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}
