//! Growth: does the drain stay as fast when much is waiting, or has ended?
//!
//! The work that waits is in the measured lane and class, with mixed priorities, and each measurement is made
//! by a new process, so that nothing is in memory that a restarted server would not have.

use std::time::Duration;

use anyhow::Context as _;
use flowfabric::Submission;

use super::drain::drain;
use super::{bar, of_rounds};
use crate::bed::{Bed, NOOP};
use crate::child::Part;
use crate::figures::{cpu_ms_of_family, median, rss_mib};
use crate::ground::Kind;
use crate::report::Report;
use crate::scans::{Scans, analyze_while_empty, come_to_rest};
use crate::{Args, Setting};

/// How many are drained in each measurement.
const MEASURED: usize = 10_000;
const WAITING: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// From so many on, one store serves all rounds: what a round takes away does not show.
const MANY: usize = 100_000;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let lasting = setting.kind != Kind::Memory;
    anyhow::ensure!(lasting, "growth restarts the process, so it needs a store that outlives it");
    let most = args.count.unwrap_or(1_000_000);
    let mut report = Report::default();
    let mut rates = Vec::new();
    let mut base = 0.0;
    for waiting in WAITING.into_iter().filter(|waiting| *waiting <= most) {
        let measured = rounds(args, setting, waiting, 0, &mut report).await?;
        if waiting == 10_000 {
            base = measured;
        }
        rates.push(measured);
        report.more.insert(format!("rate, {waiting} waiting"), measured);
    }
    let finished = one(args, setting, MEASURED, most, 1, &mut report).await?[0];
    report.more.insert(format!("rate, {most} finished"), finished);
    let last = rates.last().copied().unwrap_or(0.0);
    let figures = of_rounds(rates, most);
    report.rate_per_s = last;
    report.rounds = figures.rounds;
    report.spread = figures.spread;
    report.count = most;
    if base > 0.0 {
        report.more.insert("most waiting, of 10 k".to_owned(), last / base);
        report.more.insert("most finished, of 10 k".to_owned(), finished / base);
    }
    Ok(report)
}

/// The median of several measurements.
async fn rounds(
    args: &Args,
    setting: &Setting,
    waiting: usize,
    finished: usize,
    report: &mut Report,
) -> anyhow::Result<f64> {
    if waiting >= MANY {
        return Ok(median(&one(args, setting, waiting, finished, args.rounds, report).await?));
    }
    let mut rates = Vec::new();
    for _ in 0..args.rounds {
        rates.extend(one(args, setting, waiting, finished, 1, report).await?);
    }
    Ok(median(&rates))
}

/// Fills a store, and has new processes drain some of it, one after the other.
async fn one(
    args: &Args,
    setting: &Setting,
    waiting: usize,
    finished: usize,
    times: usize,
    report: &mut Report,
) -> anyhow::Result<Vec<f64>> {
    let bed = Bed::make(args, setting, false).await?;
    let place = bed.ground.place().context("a store that another process finds")?;
    if setting.kind == Kind::Postgres {
        analyze_while_empty(&place)?;
    }
    if finished > 0 {
        let bar = bar(&format!("submitting {finished}"), finished as u64);
        bed.fill(finished, |_| Submission::new(NOOP, &()), |sent| bar.set_position(sent as u64)).await?;
        bar.finish_and_clear();
        drain(&bed, args, finished, &format!("finishing {finished}")).await?;
    }
    let progress = bar(&format!("submitting {waiting}"), waiting as u64);
    let mixed = |n: usize| Submission::new(NOOP, &()).priority((n % 7) as i32 - 3);
    bed.fill(waiting, mixed, |sent| progress.set_position(sent as u64)).await?;
    progress.finish_and_clear();
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    if setting.kind == Kind::Postgres {
        come_to_rest(&place).await?;
    }
    let scans = read_scans(setting, &place).await?;
    let mut rates = Vec::with_capacity(times);
    for _ in 0..times {
        let before = bed.cost()?;
        let measured = measure_in_new_process(&place, args).await?;
        let number = |name: &str| measured[name].as_f64().unwrap_or(0.0);
        if let Some((before, after)) = before.zip(bed.cost()?) {
            let each = |spent: u64| spent as f64 / number("count").max(1.0);
            let with = |what: &str| format!("{what}, {waiting} waiting, {finished} finished");
            report.more.insert(with("log bytes"), each(after.wal_bytes - before.wal_bytes));
            if let Some((before, after)) = before.server_cpu_ms.zip(after.server_cpu_ms) {
                report.more.insert(with("server ms"), each(after.saturating_sub(before)));
            }
            report.more.insert(with("own ms"), number("cpu_ms") / number("count").max(1.0));
        }
        if waiting >= 1_000_000 {
            report.more.insert("MiB, 1 M waiting".to_owned(), number("rss_open_mib"));
            report.more.insert("MiB, after draining some".to_owned(), number("rss_mib"));
        }
        report.rss_mib = report.rss_mib.max(number("rss_mib"));
        rates.push(number("rate_per_s"));
    }
    if let (Some(before), Some(after)) = (scans, read_scans(setting, &place).await?) {
        let grown = before.until(&after);
        let sum: u64 = grown.iter().map(|(_, more)| more).sum();
        *report.more.entry("whole-table reads".to_owned()).or_default() += sum as f64;
        let name = |(table, more): &(String, u64)| {
            format!("{table} was read whole {more} times while {waiting} waited and {finished} had ended")
        };
        report.problems.extend(grown.iter().map(name));
    }
    report.problems.extend(bed.close().await?);
    Ok(rates)
}

async fn read_scans(setting: &Setting, place: &str) -> anyhow::Result<Option<Scans>> {
    Ok(if setting.kind == Kind::Postgres { Some(Scans::read(place).await?) } else { None })
}

async fn measure_in_new_process(place: &str, args: &Args) -> anyhow::Result<serde_json::Value> {
    let mut command = Part::Measure.command(place)?;
    command.args(["--concurrency", &args.concurrency.to_string()]);
    let run = move || command.output();
    let output = tokio::task::spawn_blocking(run).await??;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the measurement failed: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).context("the measurement's answer")
}

/// The measuring process: drains what is there, at most [`MEASURED`], and prints what it saw.
pub async fn measure(place: &str, args: &Args) -> anyhow::Result<()> {
    let bed = Bed::on(place).await?;
    let filter = flowfabric::Filter { states: vec![flowfabric::PublicState::Waiting], ..Default::default() };
    let waiting = bed.fabric.count(&filter).await?.count as usize;
    let worked_ms = || cpu_ms_of_family(std::process::id()).unwrap_or(0);
    let (rss_open_mib, before_ms) = (rss_mib(), worked_ms());
    let count = waiting.min(MEASURED);
    let rate_per_s = drain(&bed, args, count, "measuring").await?;
    let rss_mib = rss_mib();
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    println!(
        "{}",
        serde_json::json!({
            "rate_per_s": rate_per_s,
            "count": count,
            "cpu_ms": worked_ms() - before_ms,
            "rss_mib": rss_mib,
            "rss_open_mib": rss_open_mib,
        })
    );
    Ok(())
}
