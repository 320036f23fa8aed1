//! The raw limit: the rows of a recorded run, in its transactions, written by a bare client.

use std::path::Path;
use std::time::Duration;

use ff_store::Commit;
use ff_store_sqlite::raw;

use crate::report::Report;

/// Replays what was recorded on a copy of the store it started from, and puts the figures into the report.
pub fn compare(
    report: &mut Report,
    start: &Path,
    recorded: Vec<Vec<Commit>>,
    count: usize,
) -> anyhow::Result<()> {
    let rows: u64 = recorded.iter().flatten().map(|commit| commit.changes.rows() as u64).sum();
    let (replayed, time): (u64, Duration) = raw::replay(start, recorded)?;
    let raw_per_s = count as f64 / time.as_secs_f64().max(1e-9);
    report.raw_per_s = Some(raw_per_s);
    report.fraction = Some(report.rate_per_s / raw_per_s);
    if let Some(per) = &mut report.per_execution {
        per.raw_rows = Some((rows, replayed));
    }
    if rows != replayed {
        report.problems.push(format!("{rows} rows were recorded, but {replayed} replayed"));
    }
    Ok(())
}
