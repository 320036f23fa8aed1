//! The scenarios, and what they share: rounds, progress, the raw limit.

pub mod capability;
pub mod chain;
pub mod drain;
pub mod fan;
pub mod frames;
pub mod growth;
pub mod held_horizon;
pub mod idle;
pub mod latency;
pub mod quorum_cancel;
pub mod servers;
pub mod steady;
pub mod steps;
pub mod submit;
pub mod suspend;

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use self::servers::Manner;
use crate::figures::{median, rss_mib};
use crate::ground::{Cost, Kind};
use crate::report::{PerExecution, Report};
use crate::{Args, Setting};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    Drain,
    Steady,
    Latency,
    Submit,
    Bulk,
    Capability,
    Growth,
    HeldHorizon,
    Servers,
    ServersMixed,
    Chain,
    Fan,
    QuorumCancel,
    Suspend,
    Frames,
    Steps,
    Idle,
}

impl Scenario {
    pub const ALL: [Scenario; 17] = [
        Scenario::Drain,
        Scenario::Steady,
        Scenario::Latency,
        Scenario::Submit,
        Scenario::Bulk,
        Scenario::Capability,
        Scenario::Growth,
        Scenario::HeldHorizon,
        Scenario::Servers,
        Scenario::ServersMixed,
        Scenario::Chain,
        Scenario::Fan,
        Scenario::QuorumCancel,
        Scenario::Suspend,
        Scenario::Frames,
        Scenario::Steps,
        Scenario::Idle,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Scenario::Drain => "drain",
            Scenario::Steady => "steady",
            Scenario::Latency => "latency",
            Scenario::Submit => "submit",
            Scenario::Bulk => "bulk",
            Scenario::Capability => "capability",
            Scenario::Growth => "growth",
            Scenario::HeldHorizon => "held-horizon",
            Scenario::Servers => "servers",
            Scenario::ServersMixed => "servers-mixed",
            Scenario::Chain => "chain",
            Scenario::Fan => "fan",
            Scenario::QuorumCancel => "quorum-cancel",
            Scenario::Suspend => "suspend",
            Scenario::Frames => "frames",
            Scenario::Steps => "steps",
            Scenario::Idle => "idle",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Scenario::Drain => "20,000 no-op executions submitted before; until the last ending is durable",
            Scenario::Steady => "submit, run and end at the same time for 20 s",
            Scenario::Latency => "one at a time, 500 times, from submit to result",
            Scenario::Submit => "single submits from 16 and from 64 callers at once",
            Scenario::Bulk => "submits of 1,000 at a time",
            Scenario::Capability => {
                "drain over 10 capability classes, workers with 1 to 5 of them, beside a plain drain"
            }
            Scenario::Growth => {
                "drain rate with 1 k, 10 k, 100 k and 1 M waiting, and with 1 M finished behind"
            }
            Scenario::HeldHorizon => {
                "PostgreSQL: steady for 2 minutes with a transaction left open, beside a normal run"
            }
            Scenario::Servers => {
                "PostgreSQL: 1, 2 and 4 engine processes on one database, steady; clients stick to one"
            }
            Scenario::ServersMixed => "PostgreSQL: the same; submits, claims and endings go to any of them",
            Scenario::Chain => "flows of ten nodes in a row: many at once, and one at a time",
            Scenario::Fan => "a flow of one node, then 1,000, then one; from submit to its end",
            Scenario::QuorumCancel => {
                "from the completion that satisfies a join to the last of 10, 100 and 1,000 running losers cancelled"
            }
            Scenario::Suspend => {
                "suspend, signal, run again: many at once, one at a time, and 100,000 suspended before the first signal"
            }
            Scenario::Frames => "frames of 100 bytes by 16 workers, and how far behind a reader is",
            Scenario::Steps => "work of three durable steps: many at once, and one at a time",
            Scenario::Idle => {
                "a server with 10,000 open claims and no work: start, memory, CPU (needs --http)"
            }
        }
    }

    /// Whether it is about what only PostgreSQL has: other servers, and other people's transactions.
    fn needs_postgres(self) -> bool {
        matches!(self, Scenario::HeldHorizon | Scenario::Servers | Scenario::ServersMixed)
    }

    /// Whether it can be measured through a server.
    fn over_http(self) -> bool {
        matches!(
            self,
            Scenario::Drain
                | Scenario::Steady
                | Scenario::Latency
                | Scenario::Submit
                | Scenario::Bulk
                | Scenario::Capability
                | Scenario::Steps
                | Scenario::Idle
        )
    }

    /// Whether the settings allow it.
    fn check(self, args: &Args, setting: &Setting) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.needs_postgres() || setting.kind == Kind::Postgres,
            "--scenario {} measures PostgreSQL, but --store is a {} store; allowed are postgres: and postgres://…",
            self.word(),
            setting.kind.word()
        );
        anyhow::ensure!(
            !args.http || setting.kind != Kind::Memory,
            "--http measures a server in a process of its own, which cannot open memory:; allowed are sqlite: and postgres:"
        );
        let allowed = || {
            let words = Scenario::ALL.into_iter().filter(|it| it.over_http()).map(Scenario::word);
            words.collect::<Vec<_>>().join(", ")
        };
        anyhow::ensure!(
            !args.http || self.over_http(),
            "--scenario {} needs the engine in its own process; allowed with --http are {}",
            self.word(),
            allowed()
        );
        anyhow::ensure!(self != Scenario::Idle || args.http, "--scenario idle measures a server; add --http");
        Ok(())
    }

    pub async fn run(self, args: &Args, setting: &Setting) -> anyhow::Result<Report> {
        self.check(args, setting)?;
        let mut report = match self {
            Scenario::Drain => drain::run(args, setting).await,
            Scenario::Steady => steady::run(args, setting).await,
            Scenario::Latency => latency::run(args, setting).await,
            Scenario::Submit => submit::single(args, setting).await,
            Scenario::Bulk => submit::bulk(args, setting).await,
            Scenario::Capability => capability::run(args, setting).await,
            Scenario::Growth => growth::run(args, setting).await,
            Scenario::HeldHorizon => held_horizon::run(args, setting).await,
            Scenario::Servers => servers::run(args, setting, Manner::Sticking).await,
            Scenario::ServersMixed => servers::run(args, setting, Manner::Mixed).await,
            Scenario::Chain => chain::run(args, setting).await,
            Scenario::Fan => fan::run(args, setting).await,
            Scenario::QuorumCancel => quorum_cancel::run(args, setting).await,
            Scenario::Suspend => suspend::run(args, setting).await,
            Scenario::Frames => frames::run(args, setting).await,
            Scenario::Steps => steps::run(args, setting).await,
            Scenario::Idle => idle::run(args, setting).await,
        }?;
        report.scenario = self.word().to_owned();
        report.store = setting.kind.word().to_owned();
        report.rss_mib = report.rss_mib.max(rss_mib());
        report.settings.extend(settings(args, setting));
        Ok(report)
    }
}

fn settings(args: &Args, setting: &Setting) -> BTreeMap<String, String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let synchronous = match setting.kind {
        Kind::Memory => "none",
        Kind::Sqlite => "full",
        Kind::Postgres => "on, fsync on",
    };
    [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("build", if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
        ("cores", cores.to_string()),
        ("through", if args.http { "http" } else { "process" }.to_owned()),
        ("concurrency", args.concurrency.to_string()),
        ("synchronous", synchronous.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A bar on standard error, where a person is watching.
pub fn bar(name: &str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{prefix:<22} {wide_bar} {pos}/{len} {per_sec}") {
        bar.set_style(style);
    }
    bar.set_prefix(name.to_owned());
    bar
}

/// A report of the rounds' rates.
pub fn of_rounds(rounds: Vec<f64>, count: usize) -> Report {
    let middle = median(&rounds);
    let (low, high) =
        rounds.iter().fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let spread = if middle > 0.0 { (high - low) / middle } else { 0.0 };
    Report { rate_per_s: middle, spread, count, rounds, ..Report::default() }
}

pub fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// What the store did between two looks, for one execution.
pub fn add_store_cost(report: &mut Report, before: Option<Cost>, after: Option<Cost>, count: usize) {
    let (Some(before), Some(after)) = (before, after) else { return };
    let per = |before: u64, after: u64| (after - before) as f64 / count.max(1) as f64;
    report.per_execution = Some(PerExecution {
        commits: per(before.commits, after.commits),
        statements: per(before.statements, after.statements),
        rows: per(before.rows, after.rows),
        wal_bytes: per(before.wal_bytes, after.wal_bytes),
        server_cpu_ms: before
            .server_cpu_ms
            .zip(after.server_cpu_ms)
            .map(|(before, after)| per(before, after)),
        raw_rows: None,
    });
    if let (Some((cpu_before, _)), Some((cpu_after, rss_mib))) = (before.host, after.host) {
        report.more.insert("server CPU, ms each".to_owned(), per(cpu_before, cpu_after));
        report.more.insert("server, MiB resident".to_owned(), rss_mib);
    }
    let earlier: BTreeMap<u64, u64> = before.batches.into_iter().collect();
    for (most, count) in after.batches {
        let new = count - earlier.get(&most).copied().unwrap_or(0);
        if new > 0 {
            report.batches.insert(format!("{most:>6}").trim().to_owned(), new);
        }
    }
}
