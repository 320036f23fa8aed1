//! Drain: everything is submitted before; then a worker runs until the last ending is durable.

use std::time::Instant;

use flowfabric::Submission;

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew, NOOP};
use crate::ground::Kind;
use crate::report::Report;
use crate::{Args, Setting, raw};

const COUNT: usize = 20_000;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let mut rounds = Vec::new();
    let mut problems = Vec::new();
    let mut cost = (None, None);
    for round in 1..=args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        fill(&bed, count).await?;
        let before = bed.cost()?;
        rounds.push(drain(&bed, args, count, &format!("drain, round {round}")).await?);
        cost = (before, bed.cost()?);
        problems.extend(bed.close().await?);
    }
    let mut report = of_rounds(rounds, count);
    report.problems = problems;
    add_store_cost(&mut report, cost.0, cost.1, count);
    if setting.kind != Kind::Memory && !args.http {
        let bed = Bed::make(args, setting, true).await?;
        bed.start_recording();
        fill(&bed, count).await?;
        let filled = bed.take_recorded();
        let start = raw::Start::of(&bed, filled).await?;
        drain(&bed, args, count, "drain, recorded").await?;
        let recorded = bed.take_recorded();
        raw::compare(&mut report, start, recorded, count).await?;
        report.problems.extend(bed.close().await?);
    }
    Ok(report)
}

async fn fill(bed: &Bed, count: usize) -> anyhow::Result<()> {
    let bar = bar("submitting", count as u64);
    bed.fill(count, |_| Submission::new(NOOP, &()), |sent| bar.set_position(sent as u64)).await?;
    bar.finish_and_clear();
    Ok(())
}

/// Runs a worker until everything is done; executions a second.
pub async fn drain(bed: &Bed, args: &Args, count: usize, name: &str) -> anyhow::Result<f64> {
    let bar = bar(name, count as u64);
    let done_before = bed.completed().await?;
    let started = Instant::now();
    let crew = Crew::start(bed, args.concurrency, &[]);
    bed.until_completed(done_before, count as u64, |done| bar.set_position(done)).await?;
    let rate = rate(count, started.elapsed());
    bar.finish_and_clear();
    crew.stop().await?;
    Ok(rate)
}
