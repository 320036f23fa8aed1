//! Chain: flows of ten nodes in a row.

use std::time::{Duration, Instant};

use ff_core::flow::FlowState;
use ff_engine::Engine;

use super::{add_store_cost, bar, of_rounds};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::graph::{self, Graph};
use crate::ground::Kind;
use crate::load::Load;
use crate::report::Report;
use crate::{Args, Setting, raw};

const NODES: usize = 10;
const SECONDS: u64 = 10;
/// How many callers submit a chain and wait for its end, again and again.
const CALLERS: usize = 256;
/// How many are run one at a time, after the first ones, which wait for the worker to register.
const ALONE: usize = 200;
const WARM_UP: usize = 10;
/// How many callers and rounds the recorded run has.
const RECORDED: usize = 4;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let engine = bed.fabric.engine().clone();
    let alone = one_at_a_time(&engine, args.count.unwrap_or(ALONE)).await?;
    let before = bed.cost()?;
    let time = Duration::from_secs(args.seconds.unwrap_or(SECONDS));
    let load = Load { callers: CALLERS, warm_up: Duration::from_secs(1), time };
    let seen = load.run("chain", move || one(engine.clone())).await?;
    let mut report = of_rounds(vec![seen.rate()], seen.count());
    report.p50_ms = percentile_ms(&alone, 0.5);
    report.p99_ms = percentile_ms(&alone, 0.99);
    let loaded = seen.latencies();
    report.more.extend(percentile_ms(&loaded, 0.5).map(|ms| ("p50 under load, ms".to_owned(), ms)));
    report.more.insert("callers".to_owned(), CALLERS as f64);
    report.more.insert("executions/s".to_owned(), seen.rate() * NODES as f64);
    add_store_cost(&mut report, before, bed.cost()?, seen.ended * NODES);
    crew.stop().await?;
    report.problems = bed.close().await?;
    if setting.kind != Kind::Memory {
        record(args, setting, &mut report).await?;
    }
    Ok(report)
}

/// The raw limit: the rows of many chains at once.
async fn record(args: &Args, setting: &Setting, report: &mut Report) -> anyhow::Result<()> {
    let bed = Bed::make(args, setting, true).await?;
    bed.start_recording();
    let crew = Crew::start(&bed, args.concurrency, &[]);
    one(bed.fabric.engine().clone()).await?;
    let start = raw::Start::of(&bed, bed.take_recorded()).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let engine = bed.fabric.engine().clone();
        tasks.spawn(async move {
            for _ in 0..RECORDED {
                one(engine.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    raw::compare(report, start, bed.take_recorded(), CALLERS * RECORDED).await?;
    crew.stop().await?;
    report.problems.extend(bed.close().await?);
    Ok(())
}

async fn one_at_a_time(engine: &Engine, count: usize) -> anyhow::Result<Vec<Duration>> {
    let bar = bar("one at a time", count as u64);
    let mut latencies = Vec::with_capacity(count);
    for n in 0..WARM_UP + count {
        let sent = Instant::now();
        one(engine.clone()).await?;
        if n >= WARM_UP {
            latencies.push(sent.elapsed());
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    latencies.sort();
    Ok(latencies)
}

async fn one(engine: Engine) -> anyhow::Result<()> {
    let mut graph = Graph::new(&engine);
    let mut last = graph.add(&engine)?;
    for _ in 1..NODES {
        let next = graph.add(&engine)?;
        graph.edge(last, next);
        last = next;
    }
    let flow = graph::run(&engine, graph).await?;
    anyhow::ensure!(flow.state() == FlowState::Completed, "a chain ended {}", flow.state());
    Ok(())
}
