//! Held horizon: does a transaction that somebody left open make steady work slower and slower?
//!
//! While it is open, PostgreSQL keeps every version of every row that it might still look at.

use std::time::Duration;

use ff_scratch::OpenTransaction;

use super::{add_store_cost, of_rounds};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::load::{Load, Seen, through};
use crate::report::Report;
use crate::{Args, Setting};

/// How long it takes unless told otherwise, once without and once with the open transaction.
pub const SECONDS: u64 = 120;
/// The first and the last part whose rates are compared; at most a half each.
const PART_SECONDS: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Horizon {
    Free,
    Held,
}

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let seconds = args.seconds.unwrap_or(SECONDS);
    let mut report = Report::default();
    let normal = one(args, setting, seconds, Horizon::Free, &mut report).await?;
    let held = one(args, setting, seconds, Horizon::Held, &mut report).await?;
    let figures = of_rounds(vec![held.rate()], held.count());
    (report.rate_per_s, report.rounds, report.count) = (figures.rate_per_s, figures.rounds, figures.count);
    let latencies = held.latencies();
    report.p50_ms = percentile_ms(&latencies, 0.5);
    report.p99_ms = percentile_ms(&latencies, 0.99);
    let length = Duration::from_secs(PART_SECONDS.min(seconds / 2).max(1));
    let ends = |seen: &Seen| {
        let parts = seen.parts(length);
        (parts.first().copied().unwrap_or(0.0), parts.last().copied().unwrap_or(0.0))
    };
    let (normal_ends, held_ends) = (ends(&normal), ends(&held));
    report.more.extend(
        [
            ("normal, rate", normal.rate()),
            ("normal, first part", normal_ends.0),
            ("normal, last part", normal_ends.1),
            ("held, first part", held_ends.0),
            ("held, last part", held_ends.1),
            ("held, last of normal", held_ends.1 / normal_ends.1.max(1e-9)),
            ("seconds a part", length.as_secs_f64()),
        ]
        .map(|(name, figure)| (name.to_owned(), figure)),
    );
    Ok(report)
}

async fn one(
    args: &Args,
    setting: &Setting,
    seconds: u64,
    horizon: Horizon,
    report: &mut Report,
) -> anyhow::Result<Seen> {
    let bed = Bed::make(args, setting, false).await?;
    let open = match (horizon, bed.ground.place()) {
        (Horizon::Held, Some(url)) => Some(OpenTransaction::begin(&url)?),
        _ => None,
    };
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let before = bed.cost()?;
    let name = if open.is_some() { "steady, held" } else { "steady, normal" };
    let seen = Load::of_seconds(seconds).run(name, through(&bed.fabric)).await?;
    if let Some(open) = open {
        report.more.insert("transactions held back".to_owned(), open.held_back()? as f64);
        add_store_cost(report, before, bed.cost()?, seen.ended);
    }
    crew.stop().await?;
    report.problems.extend(bed.close().await?);
    Ok(seen)
}
