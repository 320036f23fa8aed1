//! Frames: sixteen workers append output of about a hundred bytes a frame, as fast as they can and then at a steady
//! pace; one reader follows one of them. How far it is behind is told for the steady pace: a worker that emits faster
//! than is stored has its frames wait in its own memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flowfabric::{Context, Output, Run, Submission, Worker};

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::ground::Kind;
use crate::report::Report;
use crate::{Args, Setting, raw};

const KIND: &str = "frames";
const WORKERS: usize = 16;
/// Frames of each worker.
const COUNT: usize = 10_000;
const BYTES: usize = 100;
/// Frames a second of all workers together, at the steady pace.
const STEADY_PER_S: f64 = 50_000.0;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let each = args.count.unwrap_or(COUNT);
    let (mut rounds, mut problems, mut cost) = (Vec::new(), Vec::new(), (None, None));
    let (mut behind, mut steady) = (Vec::new(), 0.0);
    for _ in 0..args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        let before = bed.cost()?;
        rounds.push(append(&bed, each, Pace::Full).await?.0);
        cost = (before, bed.cost()?);
        (steady, behind) = append(&bed, each, Pace::Steady).await?;
        problems.extend(bed.close().await?);
    }
    let mut report = of_rounds(rounds, each * WORKERS);
    report.problems = problems;
    report.p50_ms = percentile_ms(&behind, 0.5);
    report.p99_ms = percentile_ms(&behind, 0.99);
    report.more.insert("steady, frames/s".to_owned(), steady);
    report.more.insert("workers".to_owned(), WORKERS as f64);
    report.more.insert("bytes a frame".to_owned(), BYTES as f64);
    add_store_cost(&mut report, cost.0, cost.1, each * WORKERS);
    if setting.kind != Kind::Memory {
        let bed = Bed::make(args, setting, true).await?;
        bed.start_recording();
        let start = raw::Start::of(&bed, bed.take_recorded()).await?;
        append(&bed, each, Pace::Full).await?;
        raw::compare(&mut report, start, bed.take_recorded(), each * WORKERS).await?;
        report.problems.extend(bed.close().await?);
    }
    Ok(report)
}

/// How fast workers emit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Full,
    Steady,
}

/// A worker whose frames say when they were emitted.
fn worker(bed: &Bed, started: Instant, pace: Pace) -> Worker {
    Worker::new(&bed.fabric).name("bench").concurrency(1).on(
        KIND,
        move |ctx: Context, count: usize| async move {
            let begun = tokio::time::Instant::now();
            for n in 0..count {
                if pace == Pace::Steady {
                    let due = begun + Duration::from_secs_f64(n as f64 * WORKERS as f64 / STEADY_PER_S);
                    tokio::time::sleep_until(due).await;
                }
                let mut bytes = vec![b'.'; BYTES];
                let now = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                bytes[..8].copy_from_slice(&now.to_be_bytes());
                ctx.emit("line", bytes).await?;
            }
            Ok(())
        },
    )
}

/// Frames a second until the last is durable, and how far behind the reader was.
async fn append(bed: &Bed, each: usize, pace: Pace) -> anyhow::Result<(f64, Vec<Duration>)> {
    let bar = bar("frames", (each * WORKERS) as u64);
    let runs = bed.fabric.submit_many((0..WORKERS).map(|_| Submission::new(KIND, &each)).collect()).await;
    let runs: Vec<Run> = runs.into_iter().collect::<Result<_, _>>()?;
    let followed = Arc::new(runs[0].clone());
    let started = Instant::now();
    let reader = tokio::spawn(async move { follow(&followed, started).await });
    let crews: Vec<Crew> = (0..WORKERS).map(|_| Crew::of(worker(bed, started, pace))).collect();
    for run in &runs {
        run.result::<()>().await?;
        bar.inc(each as u64);
    }
    let elapsed = started.elapsed();
    let mut behind = reader.await??;
    anyhow::ensure!(behind.len() == each, "{} frames were read of {each}", behind.len());
    for crew in crews {
        crew.stop().await?;
    }
    bar.finish_and_clear();
    behind.sort();
    Ok((rate(each * WORKERS, elapsed), behind))
}

/// Reads all output of an execution; how long after it was emitted each frame was here.
async fn follow(run: &Run, started: Instant) -> anyhow::Result<Vec<Duration>> {
    let mut tail = run.tail(None).await?;
    let mut behind = Vec::new();
    while let Some(output) = tail.next().await? {
        let Output::Frame(frame) = output else { continue };
        let head = frame.bytes.get(..8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_be_bytes);
        behind.push(started.elapsed().saturating_sub(Duration::from_nanos(head)));
    }
    Ok(behind)
}
