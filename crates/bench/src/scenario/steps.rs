//! Steps: work of three durable steps; many at once, and one at a time.

use std::time::{Duration, Instant};

use flowfabric::{Context, Submission, Worker};

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::ground::Kind;
use crate::report::Report;
use crate::{Args, Setting, raw};

const KIND: &str = "steps";
const COUNT: usize = 10_000;
/// How many at most are run one at a time, after the first ones, which wait for the worker to register.
const ALONE: usize = 300;
const WARM_UP: usize = 10;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let (mut rounds, mut problems, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let mut cost = (None, None);
    for _ in 0..args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        fill(&bed, count).await?;
        let before = bed.cost()?;
        rounds.push(drain(&bed, args, count).await?);
        cost = (before, bed.cost()?);
        alone = one_at_a_time(&bed, args, count.min(ALONE)).await?;
        problems.extend(bed.close().await?);
    }
    let mut report = of_rounds(rounds, count);
    report.problems = problems;
    report.p50_ms = percentile_ms(&alone, 0.5);
    report.p99_ms = percentile_ms(&alone, 0.99);
    report.more.insert("steps/s".to_owned(), report.rate_per_s * 3.0);
    add_store_cost(&mut report, cost.0, cost.1, count);
    if setting.kind != Kind::Memory && !args.http {
        let bed = Bed::make(args, setting, true).await?;
        bed.start_recording();
        fill(&bed, count).await?;
        let start = raw::Start::of(&bed, bed.take_recorded()).await?;
        drain(&bed, args, count).await?;
        raw::compare(&mut report, start, bed.take_recorded(), count).await?;
        report.problems.extend(bed.close().await?);
    }
    Ok(report)
}

fn worker(bed: &Bed, args: &Args) -> Worker {
    let handled = bed.handled();
    Worker::new(&bed.fabric).name("bench").concurrency(args.concurrency).on(
        KIND,
        move |ctx: Context, n: u64| {
            let handled = handled.clone();
            async move {
                let first: u64 = ctx.step("first", async || Ok(n + 1)).await?;
                let second: u64 = ctx.step("second", async || Ok(first + 1)).await?;
                let third: u64 = ctx.step("third", async || Ok(second + 1)).await?;
                handled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(third)
            }
        },
    )
}

async fn fill(bed: &Bed, count: usize) -> anyhow::Result<()> {
    bed.fill(count, |n| Submission::new(KIND, &n), |_| {}).await
}

/// Runs a worker until everything is done; executions a second.
async fn drain(bed: &Bed, args: &Args, count: usize) -> anyhow::Result<f64> {
    let bar = bar("steps", count as u64);
    let done_before = bed.completed().await?;
    let started = Instant::now();
    let crew = Crew::of(worker(bed, args));
    bed.until_completed(done_before, count as u64, |done| bar.set_position(done)).await?;
    let rate = rate(count, started.elapsed());
    bar.finish_and_clear();
    crew.stop().await?;
    Ok(rate)
}

async fn one_at_a_time(bed: &Bed, args: &Args, count: usize) -> anyhow::Result<Vec<Duration>> {
    let crew = Crew::of(worker(bed, args));
    let mut latencies = Vec::with_capacity(count);
    for n in 0..WARM_UP + count {
        let sent = Instant::now();
        bed.fabric.submit(KIND, &n).await?.result::<u64>().await?;
        if n >= WARM_UP {
            latencies.push(sent.elapsed());
        }
    }
    crew.stop().await?;
    latencies.sort();
    Ok(latencies)
}
