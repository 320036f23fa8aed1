//! Steady: submit, run and end at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew, NOOP};
use crate::figures::percentile_ms;
use crate::report::Report;
use crate::{Args, Setting};

/// How many callers submit and wait for their result at once.
const CALLERS: usize = 512;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let before = bed.cost()?;
    let time = Duration::from_secs(args.seconds);
    let bar = bar("steady", args.seconds * 10);
    let count = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (fabric, count) = (bed.fabric.clone(), count.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < time {
                    let sent = Instant::now();
                    fabric.submit(NOOP, &()).await?.wait().await?;
                    latencies.push(sent.elapsed());
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, flowfabric::Error>(latencies)
            })
        })
        .collect();
    while started.elapsed() < time {
        bar.set_position(started.elapsed().as_millis() as u64 / 100);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await??);
    }
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    latencies.sort();
    let done = latencies.len();
    let mut report = of_rounds(vec![rate(done, elapsed)], done);
    report.p50_ms = percentile_ms(&latencies, 0.5);
    report.p99_ms = percentile_ms(&latencies, 0.99);
    add_store_cost(&mut report, before, bed.cost()?, done);
    report.more.insert("callers".to_owned(), CALLERS as f64);
    crew.stop().await?;
    report.problems = bed.close().await?;
    Ok(report)
}
