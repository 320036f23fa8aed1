//! Submit: one by one from many callers, and a thousand at a time.

use std::time::Instant;

use flowfabric::{Fabric, Submission};

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, NOOP};
use crate::figures::percentile_ms;
use crate::plain::Connection;
use crate::report::Report;
use crate::{Args, Setting};

const SINGLE: usize = 20_000;
const BULK: usize = 100_000;

/// Single submits from 16 and from 64 callers; the rate is that of 64.
pub async fn single(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(SINGLE);
    let bed = Bed::make(args, setting, false).await?;
    let mut report = Report::default();
    for callers in [16, 64] {
        let bar = bar(&format!("{callers} callers"), count as u64);
        let before = bed.cost()?;
        let started = Instant::now();
        let tasks: Vec<_> = (0..callers)
            .map(|n| {
                let bar = bar.clone();
                let caller = Caller::of(&bed);
                let share = count / callers + usize::from(n < count % callers);
                tokio::spawn(async move {
                    let mut caller = caller.await?;
                    let mut latencies = Vec::with_capacity(share);
                    for _ in 0..share {
                        let sent = Instant::now();
                        caller.submit().await?;
                        latencies.push(sent.elapsed());
                        bar.inc(1);
                    }
                    anyhow::Ok(latencies)
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await??);
        }
        let rate = rate(count, started.elapsed());
        bar.finish_and_clear();
        latencies.sort();
        let sixteen = report.rate_per_s;
        report = of_rounds(vec![rate], count);
        report.p50_ms = percentile_ms(&latencies, 0.5);
        report.p99_ms = percentile_ms(&latencies, 0.99);
        if callers == 64 {
            report.more.insert("rate with 16 callers".to_owned(), sixteen);
        }
        add_store_cost(&mut report, before, bed.cost()?, count);
    }
    report.problems = bed.close().await?;
    Ok(report)
}

/// Somebody who submits one execution after the other.
enum Caller {
    Inside(Fabric),
    /// The SDK would put the submits of many callers into one request.
    Outside(Connection),
}

impl Caller {
    fn of(bed: &Bed) -> impl Future<Output = anyhow::Result<Caller>> + Send + use<> {
        let (fabric, url) = (bed.fabric.clone(), bed.host.as_ref().map(|host| host.url.clone()));
        async move {
            Ok(match url {
                Some(url) => Caller::Outside(Connection::open(&url).await?),
                None => Caller::Inside(fabric),
            })
        }
    }

    async fn submit(&mut self) -> anyhow::Result<()> {
        match self {
            Caller::Inside(fabric) => {
                fabric.submit(NOOP, &()).await?;
            }
            Caller::Outside(connection) => {
                let document = format!(r#"{{"kind":"{NOOP}","input":null}}"#);
                let (status, body) = connection.post("/v1/executions", &document).await?;
                let said = String::from_utf8_lossy(body);
                anyhow::ensure!(status == 201, "a submit was answered with {status}: {said}");
            }
        }
        Ok(())
    }
}

pub async fn bulk(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(BULK);
    let mut rounds = Vec::new();
    let mut problems = Vec::new();
    let mut cost = (None, None);
    for round in 1..=args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        let bar = bar(&format!("bulk, round {round}"), count as u64);
        let before = bed.cost()?;
        let started = Instant::now();
        // Two callers, so that one prepares its thousand while the other's is being written.
        let half = |from: usize, to: usize| {
            let bar = bar.clone();
            let bed = &bed;
            async move {
                let mut sent = from;
                while sent < to {
                    let batch: Vec<_> =
                        (sent..to.min(sent + 1_000)).map(|_| Submission::new(NOOP, &())).collect();
                    sent += batch.len();
                    bar.inc(batch.len() as u64);
                    for run in bed.fabric.submit_many(batch).await {
                        run?;
                    }
                }
                Ok::<(), flowfabric::Error>(())
            }
        };
        tokio::try_join!(half(0, count / 2), half(count / 2, count))?;
        rounds.push(rate(count, started.elapsed()));
        bar.finish_and_clear();
        cost = (before, bed.cost()?);
        problems.extend(bed.close().await?);
    }
    let mut report = of_rounds(rounds, count);
    report.problems = problems;
    add_store_cost(&mut report, cost.0, cost.1, count);
    Ok(report)
}
