//! Steady: submit, run and end at the same time.

use super::{add_store_cost, of_rounds};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::load::{CALLERS, Load, through};
use crate::report::Report;
use crate::{Args, Setting};

/// How long it takes unless told otherwise.
pub const SECONDS: u64 = 20;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let before = bed.cost()?;
    let load = Load::of_seconds(args.seconds.unwrap_or(SECONDS));
    let seen = load.run("steady", through(&bed.fabric)).await?;
    let mut report = of_rounds(vec![seen.rate()], seen.count());
    let latencies = seen.latencies();
    report.p50_ms = percentile_ms(&latencies, 0.5);
    report.p99_ms = percentile_ms(&latencies, 0.99);
    add_store_cost(&mut report, before, bed.cost()?, seen.ended);
    report.more.insert("callers".to_owned(), CALLERS as f64);
    crew.stop().await?;
    report.problems = bed.close().await?;
    Ok(report)
}
