//! Servers: one, two and four engines on one database, each an operating system's process, under the same load.
//!
//! In `servers` each process submits to itself and runs its own work; in `servers-mixed` clients call any of them.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{add_store_cost, of_rounds, steady};
use crate::bed::{Bed, Crew};
use crate::child::{self, Child, Part};
use crate::clients::Clients;
use crate::figures::{median, percentile_ms};
use crate::ground::Cost;
use crate::load::{CALLERS, Load, through};
use crate::report::Report;
use crate::{Args, Setting};

const SERVERS: [usize; 3] = [1, 2, 4];
/// Servers learn of each other once a second; no longer than what is measured.
const WARM_UP: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Sticking,
    Mixed,
}

/// One measurement.
#[derive(Debug, Default)]
struct Seen {
    rate: f64,
    latencies: Vec<Duration>,
    ended: usize,
    cost: Cost,
    /// The middle of how long calls took, by what was called.
    calls: BTreeMap<&'static str, f64>,
}

/// What a loading child has to tell.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    latencies_us: Vec<u64>,
    ended: usize,
    cost: Cost,
}

pub async fn run(args: &Args, setting: &Setting, manner: Manner) -> anyhow::Result<Report> {
    let mut rates: [Vec<f64>; SERVERS.len()] = Default::default();
    let mut conflicts = rates.clone();
    let mut last = Seen::default();
    let mut problems = Vec::new();
    for _ in 0..args.rounds {
        for (n, servers) in SERVERS.into_iter().enumerate() {
            last = one(args, setting, servers, manner, &mut problems).await?;
            rates[n].push(last.rate);
            conflicts[n].push(last.cost.conflicts as f64 / last.cost.commits.max(1) as f64);
        }
    }
    let medians: Vec<f64> = rates.iter().map(|rates| median(rates)).collect();
    let mut report = of_rounds(rates[SERVERS.len() - 1].clone(), last.latencies.len());
    for (n, servers) in SERVERS.into_iter().enumerate() {
        report.more.insert(format!("rate, {servers}"), medians[n]);
        report.more.insert(format!("conflicts a commit, {servers}"), median(&conflicts[n]));
    }
    report.more.insert("two of one".to_owned(), medians[1] / medians[0].max(1e-9));
    report.more.insert("four of one".to_owned(), medians[2] / medians[0].max(1e-9));
    report.more.insert("callers".to_owned(), CALLERS as f64);
    for (word, ms) in &last.calls {
        report.more.insert(format!("{word} with 4, p50 ms"), *ms);
    }
    last.latencies.sort();
    report.p50_ms = percentile_ms(&last.latencies, 0.5);
    report.p99_ms = percentile_ms(&last.latencies, 0.99);
    // Everything was counted from nothing.
    let nothing = Cost { server_cpu_ms: last.cost.server_cpu_ms.map(|_| 0), ..Cost::default() };
    add_store_cost(&mut report, Some(nothing), Some(last.cost), last.ended);
    report.problems = problems;
    Ok(report)
}

async fn one(
    args: &Args,
    setting: &Setting,
    servers: usize,
    manner: Manner,
    problems: &mut Vec<String>,
) -> anyhow::Result<Seen> {
    let bed = Bed::make(args, setting, false).await?;
    // This process owns the database and is none of the servers.
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    let url = bed.ground.place().context("a store that another process finds")?;
    let before = bed.cost()?.unwrap_or_default();
    let mut seen = match manner {
        Manner::Sticking => sticking(args, &url, servers).await?,
        Manner::Mixed => mixed(args, &url, servers).await?,
    };
    let after = bed.cost()?.unwrap_or_default();
    seen.cost.wal_bytes = after.wal_bytes - before.wal_bytes;
    seen.cost.server_cpu_ms =
        before.server_cpu_ms.zip(after.server_cpu_ms).map(|(before, after)| after.saturating_sub(before));
    problems.extend(bed.close().await?);
    Ok(seen)
}

fn seconds(args: &Args) -> u64 {
    args.seconds.unwrap_or(steady::SECONDS)
}

fn warmed_up(args: &Args) -> Load {
    let load = Load::of_seconds(seconds(args));
    Load { warm_up: WARM_UP.min(load.time), ..load }
}

// ---- clients that stick to one -----------------------------------------------------------------------

async fn sticking(args: &Args, url: &str, servers: usize) -> anyhow::Result<Seen> {
    let mut children = Vec::new();
    for _ in 0..servers {
        let (callers, concurrency) = (CALLERS / servers, (args.concurrency / servers).max(1));
        let words = [
            ("--callers", callers.to_string()),
            ("--concurrency", concurrency.to_string()),
            ("--seconds", seconds(args).to_string()),
        ];
        let words = words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        children.push(Child::start(Part::Load, url, words.collect()).await?);
    }
    for child in &mut children {
        child.go()?;
    }
    let mut seen = Seen::default();
    for child in children {
        let told: Told = child.end().await?;
        seen.rate += told.latencies_us.len() as f64 / seconds(args).max(1) as f64;
        seen.latencies.extend(told.latencies_us.into_iter().map(Duration::from_micros));
        seen.ended += told.ended;
        seen.cost.add(&told.cost);
    }
    Ok(seen)
}

/// The child: an engine, its worker and its callers in one process.
pub async fn load(place: &str, args: &Args) -> anyhow::Result<()> {
    let bed = Bed::on(place).await?;
    let crew = Crew::start(&bed, args.concurrency, &[]);
    child::say(&"ready")?;
    if child::told().await?.is_none() {
        return Ok(());
    }
    let callers = args.callers.unwrap_or(CALLERS);
    let load = Load { callers, ..warmed_up(args) };
    let seen = load.run("load", through(&bed.fabric)).await?;
    crew.stop().await?;
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    let latencies_us = seen.latencies().iter().map(|took| took.as_micros() as u64).collect();
    let cost = bed.cost()?.context("a store that counts")?;
    child::say(&Told { latencies_us, ended: seen.ended, cost })
}

// ---- clients that call any ---------------------------------------------------------------------------

async fn mixed(args: &Args, url: &str, servers: usize) -> anyhow::Result<Seen> {
    let mut children = Vec::new();
    for _ in 0..servers {
        children.push(Child::start(Part::Serve, url, Vec::new()).await?);
    }
    let ports = children.iter().map(|child| child.ready.parse()).collect::<Result<Vec<u16>, _>>()?;
    let clients = Clients::connect(&ports).await?;
    let mut workers = clients.work(args.concurrency);
    let callers = clients.clone();
    let load = warmed_up(args);
    let each = move || {
        let clients = callers.clone();
        async move { clients.submit_and_wait().await }
    };
    let name = format!("{servers} servers, mixed");
    let loaded = tokio::select! {
        loaded = load.run(&name, each) => loaded?,
        Some(ended) = workers.join_next() => {
            ended??;
            anyhow::bail!("a worker has ended early");
        }
    };
    workers.shutdown().await;
    let mut seen = Seen {
        rate: loaded.rate(),
        latencies: loaded.latencies(),
        ended: loaded.ended,
        cost: Cost::default(),
        calls: BTreeMap::new(),
    };
    for (word, mut took) in std::mem::take(&mut *clients.took.lock().unwrap_or_else(PoisonError::into_inner))
    {
        took.sort();
        seen.calls.insert(word, percentile_ms(&took, 0.5).unwrap_or_default());
    }
    for child in children {
        seen.cost.add(&child.end::<Cost>().await?);
    }
    Ok(seen)
}
