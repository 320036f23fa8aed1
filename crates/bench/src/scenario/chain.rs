//! Chain: flows of ten nodes in a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ff_core::flow::FlowState;
use ff_engine::Engine;
use tokio::task::JoinSet;

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::graph::{self, Graph};
use crate::ground::Kind;
use crate::report::Report;
use crate::{Args, Setting, raw};

const NODES: usize = 10;
const COUNT: usize = 5_000;
/// How many callers submit a chain and wait for its end, again and again.
const CALLERS: usize = 256;
/// How many at most are run one at a time, after the first ones, which wait for the worker to register.
const ALONE: usize = 200;
const WARM_UP: usize = 10;
/// How many at most are recorded.
const RECORDED: usize = 1_000;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let start = bed.cost()?;
    let alone = one_at_a_time(bed.engine()?, count.min(ALONE)).await?;
    let before = bed.cost()?;
    let commits = start.zip(before.as_ref()).map(|(start, end)| end.commits - start.commits);
    let (latencies, elapsed) = many(bed.engine()?, count).await?;
    let mut report = of_rounds(vec![rate(count, elapsed)], count);
    report.p50_ms = percentile_ms(&alone, 0.5);
    report.p99_ms = percentile_ms(&alone, 0.99);
    report.more.extend(percentile_ms(&latencies, 0.5).map(|ms| ("p50 of many, ms".to_owned(), ms)));
    let commits = commits.map(|it| it as f64 / (alone.len() + WARM_UP) as f64);
    report.more.extend(commits.map(|it| ("commits a chain, one at a time".to_owned(), it)));
    report.more.insert("callers".to_owned(), CALLERS as f64);
    report.more.insert("executions/s".to_owned(), rate(count * NODES, elapsed));
    add_store_cost(&mut report, before, bed.cost()?, count * NODES);
    crew.stop().await?;
    report.problems = bed.close().await?;
    if setting.kind != Kind::Memory {
        record(args, setting, &mut report, count.min(RECORDED)).await?;
    }
    Ok(report)
}

/// The raw limit: the rows of many chains at once.
async fn record(args: &Args, setting: &Setting, report: &mut Report, count: usize) -> anyhow::Result<()> {
    let bed = Bed::make(args, setting, true).await?;
    bed.start_recording();
    let crew = Crew::start(&bed, args.concurrency, &[]);
    one(bed.engine()?).await?;
    let start = raw::Start::of(&bed, bed.take_recorded()).await?;
    many(bed.engine()?, count).await?;
    raw::compare(report, start, bed.take_recorded(), count).await?;
    crew.stop().await?;
    report.problems.extend(bed.close().await?);
    Ok(())
}

/// Runs so many chains, by many callers at once.
async fn many(engine: &Engine, count: usize) -> anyhow::Result<(Vec<Duration>, Duration)> {
    let bar = bar("many at once", count as u64);
    let (left, started) = (Arc::new(AtomicUsize::new(count)), Instant::now());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS.min(count) {
        let (engine, left, bar) = (engine.clone(), left.clone(), bar.clone());
        callers.spawn(async move {
            let mut latencies = Vec::new();
            let take = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let sent = Instant::now();
                one(&engine).await?;
                latencies.push(sent.elapsed());
                bar.inc(1);
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::with_capacity(count);
    while let Some(caller) = callers.join_next().await {
        latencies.extend(caller??);
    }
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    latencies.sort();
    Ok((latencies, elapsed))
}

async fn one_at_a_time(engine: &Engine, count: usize) -> anyhow::Result<Vec<Duration>> {
    let bar = bar("one at a time", count as u64);
    let mut latencies = Vec::with_capacity(count);
    for n in 0..WARM_UP + count {
        let sent = Instant::now();
        one(engine).await?;
        if n >= WARM_UP {
            latencies.push(sent.elapsed());
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    latencies.sort();
    Ok(latencies)
}

async fn one(engine: &Engine) -> anyhow::Result<()> {
    let mut graph = Graph::new(engine);
    let mut last = graph.add(engine)?;
    for _ in 1..NODES {
        let next = graph.add(engine)?;
        graph.edge(last, next);
        last = next;
    }
    let flow = graph::run(engine, graph).await?;
    anyhow::ensure!(flow.state() == FlowState::Completed, "a chain ended {}", flow.state());
    Ok(())
}
