//! Fan: one node, then many at once, then one.

use std::time::Instant;

use ff_core::flow::FlowState;

use super::{add_store_cost, bar, of_rounds};
use crate::bed::{Bed, Crew};
use crate::figures::percentile_ms;
use crate::graph::{self, Graph};
use crate::report::Report;
use crate::{Args, Setting};

const WIDTH: usize = 1_000;
const FLOWS: usize = 20;
const WARM_UP: usize = 2;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let (width, flows) = (args.count.unwrap_or(WIDTH), FLOWS);
    let bed = Bed::make(args, setting, false).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    let engine = bed.engine()?.clone();
    let bar = bar("fan", flows as u64);
    let (mut latencies, mut before) = (Vec::new(), bed.cost()?);
    let mut started = Instant::now();
    for n in 0..WARM_UP + flows {
        if n == WARM_UP {
            (before, started) = (bed.cost()?, Instant::now());
        }
        let sent = Instant::now();
        let mut graph = Graph::new(&engine);
        let first = graph.add(&engine)?;
        let middle: Vec<_> = (0..width).map(|_| graph.add(&engine)).collect::<anyhow::Result<_>>()?;
        let last = graph.add(&engine)?;
        for node in middle {
            graph.edge(first, node);
            graph.edge(node, last);
        }
        let flow = graph::run(&engine, graph).await?;
        anyhow::ensure!(flow.state() == FlowState::Completed, "a fan ended {}", flow.state());
        if n >= WARM_UP {
            latencies.push(sent.elapsed());
            bar.inc(1);
        }
    }
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    latencies.sort();
    let executions = flows * (width + 2);
    let mut report = of_rounds(vec![super::rate(flows, elapsed)], flows);
    report.p50_ms = percentile_ms(&latencies, 0.5);
    report.p99_ms = percentile_ms(&latencies, 0.99);
    report.more.insert("width".to_owned(), width as f64);
    report.more.insert("executions/s".to_owned(), super::rate(executions, elapsed));
    add_store_cost(&mut report, before, bed.cost()?, executions);
    crew.stop().await?;
    report.problems = bed.close().await?;
    Ok(report)
}
