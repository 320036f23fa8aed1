//! Quorum-cancel: a join is satisfied while all its other upstreams run; how long until the last of them is cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_core::commands::{Complete, Poll, RegisterWorker};
use ff_core::flow::{Join, OnSatisfied};
use ff_core::{Flow, LaneName, PublicState, WorkerName};
use ff_engine::{Engine, Task};

use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::Bed;
use crate::figures::percentile_ms;
use crate::graph::Graph;
use crate::report::Report;
use crate::{Args, Setting};

/// How many losers; the figures of the report are those of the last.
const LOSERS: [usize; 3] = [10, 100, 1_000];
const FLOWS: usize = 20;
const WARM_UP: usize = 2;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let flows = args.count.unwrap_or(FLOWS);
    let bed = Bed::make(args, setting, false).await?;
    let engine = bed.engine()?.clone();
    let poll = register(&engine).await?;
    let mut report = Report::default();
    for losers in LOSERS {
        let bar = bar(&format!("{losers} losers"), flows as u64);
        let (mut latencies, mut before) = (Vec::new(), bed.cost()?);
        for n in 0..WARM_UP + flows {
            if n == WARM_UP {
                before = bed.cost()?;
            }
            let took = cancel(&engine, &poll, losers).await?;
            if n >= WARM_UP {
                latencies.push(took);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        latencies.sort();
        let more = std::mem::take(&mut report.more);
        report = of_rounds(vec![rate(flows * losers, latencies.iter().sum())], flows);
        report.p50_ms = percentile_ms(&latencies, 0.5);
        report.p99_ms = percentile_ms(&latencies, 0.99);
        report.more = more;
        report.more.extend(report.p50_ms.map(|ms| (format!("{losers} losers, p50 ms"), ms)));
        add_store_cost(&mut report, before, bed.cost()?, flows * (losers + 2));
    }
    report.problems = bed.close().await?;
    Ok(report)
}

/// Runs a flow up to where all upstreams of its join run, completes one, and waits for the end of all others.
async fn cancel(engine: &Engine, poll: &Arc<Poll>, losers: usize) -> anyhow::Result<Duration> {
    let mut graph = Graph::new(engine);
    let upstreams: Vec<_> = (0..=losers).map(|_| graph.add(engine)).collect::<anyhow::Result<_>>()?;
    let join = graph.add(engine)?;
    upstreams.iter().for_each(|node| graph.edge(*node, join));
    graph.join(join, Join::AnyOf { on_satisfied: OnSatisfied::CancelRemaining });
    let flow = graph.submit(engine).await?;
    let mut running = Vec::new();
    while running.len() < upstreams.len() {
        running.extend(claim(engine, poll, upstreams.len() - running.len()).await?);
    }
    let winner = running[running.len() / 2].execution.clone();
    let started = Instant::now();
    engine.execute(Complete { fence: winner.fence(), result: None }).await?;
    let cancelled = |flow: &Flow| flow.live.summary.get(PublicState::Cancelled) as usize;
    while engine.flow(flow).await?.is_none_or(|flow| cancelled(&flow) < losers) {}
    let took = started.elapsed();
    for task in claim(engine, poll, 1).await? {
        engine.execute(Complete { fence: task.execution.fence(), result: None }).await?;
    }
    engine.wait_flow(flow).await?;
    Ok(took)
}

async fn claim(engine: &Engine, poll: &Arc<Poll>, max: usize) -> anyhow::Result<Vec<Task>> {
    let tasks = engine.poll(poll.clone(), max, Duration::from_secs(10)).await?;
    anyhow::ensure!(!tasks.is_empty(), "nothing was ready for ten seconds");
    Ok(tasks)
}

async fn register(engine: &Engine) -> anyhow::Result<Arc<Poll>> {
    let (instance, worker) = (engine.new_instance_id(0), "bench".parse::<WorkerName>()?);
    let lanes = vec![LaneName::default()];
    let command = RegisterWorker {
        instance,
        name: worker.clone(),
        lanes: lanes.clone(),
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 600_000,
    };
    engine.execute(command).await?;
    let (kinds, namespaces, capabilities) = (vec![], vec![], Default::default());
    Ok(Arc::new(Poll { worker, instance, lanes, kinds, namespaces, capabilities }))
}
