//! Latency: one at a time, from submit to result.

use std::time::Instant;

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew, NOOP};
use crate::figures::percentile_ms;
use crate::report::Report;
use crate::{Args, Setting};

const COUNT: usize = 500;
/// The first ones wait for the worker to register and are not measured.
const WARM_UP: usize = 20;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let bar = bar("latency", count as u64);
    let mut latencies = Vec::with_capacity(count);
    let (mut before, mut started) = (bed.cost()?, Instant::now());
    for n in 0..WARM_UP + count {
        if n == WARM_UP {
            (before, started) = (bed.cost()?, Instant::now());
        }
        let sent = Instant::now();
        bed.fabric.submit(NOOP, &()).await?.result::<()>().await?;
        if n >= WARM_UP {
            latencies.push(sent.elapsed());
            bar.inc(1);
        }
    }
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    latencies.sort();
    let mut report = of_rounds(vec![rate(count, elapsed)], count);
    report.p50_ms = percentile_ms(&latencies, 0.5);
    report.p99_ms = percentile_ms(&latencies, 0.99);
    add_store_cost(&mut report, before, bed.cost()?, count);
    crew.stop().await?;
    report.problems = bed.close().await?;
    Ok(report)
}
