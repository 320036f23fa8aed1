//! A runbook whose worker is killed half-way: another goes on after the last step that was done, and none is done twice.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Stdio, id};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ff_examples::{Stage, work_while};
use flowfabric::{Backoff, Context, Fabric, Jitter, TaskFailure, Worker};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

const RUNBOOK: [&str; 4] = ["take out of rotation", "drain connections", "restart", "put back"];
/// Where the process that is to be killed finds the books of the host; only that one has it in its environment.
const DOOMED: &str = "INCIDENT_BOOKS_OF_THE_DOOMED";
const STUCK: &str = "the connection to the host hangs";

/// The host that is out of order, as far as this program can touch it: it writes down what is done to it.
#[derive(Debug)]
struct Host {
    books: PathBuf,
    /// In one process the third step never returns.
    hangs: bool,
}

impl Host {
    /// Does something to the host. Its result is the process that did it.
    async fn act(&self, step: &str) -> Result<u32, TaskFailure> {
        if self.hangs && step == RUNBOOK[2] {
            println!("{STUCK}");
            std::future::pending::<()>().await;
        }
        let mut books = std::fs::OpenOptions::new().append(true).create(true).open(&self.books)?;
        writeln!(books, "{step}, by process {}", id())?;
        println!("{step}");
        Ok(id())
    }
}

async fn remediate(ctx: Context, host: String) -> Result<String, TaskFailure> {
    let site = ctx.data::<Host>()?;
    let mut done_by = Vec::new();
    for (n, step) in RUNBOOK.into_iter().enumerate() {
        ctx.progress(u8::try_from(n * 25).unwrap_or(100), step).await;
        done_by.push(ctx.step(step, async || site.act(step).await).await?);
    }
    done_by.dedup();
    Ok(format!("{host} is well again, by the work of {} processes", done_by.len()))
}

fn on_call(fabric: &Fabric, name: &str, host: Host) -> Worker {
    Worker::new(fabric).name(name).lane("incidents").data(host).on("remediate", remediate)
}

/// Starts this program once more as the first worker, and kills it when it is stuck.
async fn work_and_die(address: &str, books: &Path) -> Result<u32> {
    let mut first = Command::new(std::env::current_exe()?)
        .arg(address)
        .env(DOOMED, books)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("a second process cannot be started")?;
    let pid = first.id().context("it has ended already")?;
    let mut lines = BufReader::new(first.stdout.take().context("it says nothing")?).lines();
    while let Some(line) = lines.next_line().await? {
        println!("  on-call-1, process {pid}: {line}");
        if line == STUCK {
            first.kill().await?;
            println!("process {pid} is killed (SIGKILL) in the middle of its third step");
            return Ok(pid);
        }
    }
    anyhow::bail!("process {pid} has ended by itself")
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    if let Some(books) = std::env::var_os(DOOMED) {
        let host = Host { books: books.into(), hangs: true };
        on_call(fabric, "on-call-1", host).run().await?;
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let books = folder.path().join("db-3.log");

    // A short lease: over a network, silence is all that tells of a death. On one SQLite file the lock of the dead
    // process is free, and nobody waits for the lease.
    let backoff = Backoff { initial_ms: 100, factor: 1.0, max_ms: 100, jitter: Jitter::None };
    let incident = fabric.submit("remediate", "db-3").lane("incidents");
    let run = incident.lease(Duration::from_secs(3)).backoff(backoff).await?;
    println!("db-3 does not answer: execution {}", run.id());
    work_and_die(&stage.address, &books).await?;

    let killed = Instant::now();
    let story = async {
        let result: String = run.result().await?;
        println!("{result}, {:.1} s after the first was killed", killed.elapsed().as_secs_f64());
        Ok(())
    };
    println!("on-call-2, process {}, takes over:", id());
    work_while(on_call(fabric, "on-call-2", Host { books: books.clone(), hangs: false }), story).await?;

    println!("what the host has seen:");
    std::fs::read_to_string(&books)?.lines().for_each(|line| println!("  {line}"));
    println!("what the store has seen:");
    for attempt in run.attempts().await? {
        let outcome = attempt.end.map_or("running", |end| end.outcome.word());
        println!("  attempt {} by {}: {outcome}", attempt.number, attempt.worker.as_str());
    }
    stage.close().await;
    Ok(())
}
