//! What a run has measured, for people and for machines.

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub scenario: String,
    pub store: String,
    /// Executions (or submissions) a second, the median of all rounds.
    pub rate_per_s: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// The same rows in the same transactions, written by a bare client.
    pub raw_per_s: Option<f64>,
    /// `rate_per_s` / `raw_per_s`.
    pub fraction: Option<f64>,
    pub rss_mib: f64,
    pub count: usize,
    pub rounds: Vec<f64>,
    /// (largest − smallest) / median of the rounds.
    pub spread: f64,
    /// What the store did for one execution.
    pub per_execution: Option<PerExecution>,
    /// How many records went into one transaction: `at most` → transactions.
    pub batches: BTreeMap<String, u64>,
    /// Other figures of the scenario.
    pub more: BTreeMap<String, f64>,
    pub settings: BTreeMap<String, String>,
    /// What the check of the store found at the end; empty if everything agrees.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct PerExecution {
    pub commits: f64,
    pub statements: f64,
    pub rows: f64,
    pub wal_bytes: f64,
    /// How long the server's own processes worked for it; none for a store in this process.
    pub server_cpu_ms: Option<f64>,
    /// Records in the recorded run and in its replay by the bare client; they must be equal.
    pub raw_rows: Option<(u64, u64)>,
}

impl Report {
    pub fn print(&self) {
        println!("\n{} on {}: {:.0}/s", self.scenario, self.store, self.rate_per_s);
        let line = |name: &str, value: String| println!("  {name:<22} {value}");
        if let (Some(p50), Some(p99)) = (self.p50_ms, self.p99_ms) {
            line("latency", format!("p50 {p50:.2} ms, p99 {p99:.2} ms"));
        }
        if let (Some(raw), Some(fraction)) = (self.raw_per_s, self.fraction) {
            line("bare client", format!("{raw:.0}/s; this is {fraction:.2} of it"));
        }
        if let Some(per) = &self.per_execution {
            line(
                "store, per execution",
                format!(
                    "{:.3} commits, {:.3} statements, {:.1} rows, {:.0} bytes of log{}",
                    per.commits,
                    per.statements,
                    per.rows,
                    per.wal_bytes,
                    per.server_cpu_ms.map(|ms| format!(", {ms:.3} ms of server CPU")).unwrap_or_default()
                ),
            );
            if let Some((recorded, replayed)) = per.raw_rows {
                line("rows recorded/replayed", format!("{recorded} / {replayed}"));
            }
        }
        if !self.batches.is_empty() {
            let list: Vec<String> = self.batches.iter().map(|(most, n)| format!("≤{most}: {n}")).collect();
            line("rows a transaction", list.join(", "));
        }
        for (name, value) in &self.more {
            line(name, format!("{value:.2}"));
        }
        line("memory", format!("{:.0} MiB resident", self.rss_mib));
        let rounds: Vec<String> = self.rounds.iter().map(|rate| format!("{rate:.0}")).collect();
        line("rounds", format!("{} (spread {:.0} %)", rounds.join(", "), self.spread * 100.0));
        for problem in &self.problems {
            line("PROBLEM", problem.clone());
        }
    }
}
