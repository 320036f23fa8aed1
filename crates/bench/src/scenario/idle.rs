//! Idle: a server, and many workers that wait for work that does not come.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::{bar, of_rounds, rate};
use crate::bed::{Bed, NOOP};
use crate::plain::Connection;
use crate::report::Report;
use crate::{Args, Setting};

/// How many claims are open.
const COUNT: usize = 10_000;
/// How many are being opened at once.
const AT_ONCE: usize = 64;
/// How long nothing happens, unless told otherwise. A claim waits for a minute at most.
const SECONDS: u64 = 10;

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let (count, seconds) = (args.count.unwrap_or(COUNT), args.seconds.unwrap_or(SECONDS).min(30));
    let bed = Bed::make(args, setting, false).await?;
    let host = bed.host.as_ref().context("a server of its own")?;
    let alone = host.told()?;
    let started = Instant::now();
    let mut waiting = open(&host.url, count).await?;
    let opened = started.elapsed();
    let before = host.told()?;
    let bar = bar("idle", seconds);
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let after = host.told()?;
    // They do wait for work: the next execution goes to one of them.
    bed.fabric.submit(NOOP, &()).await?;
    let answered = Instant::now();
    let tasks = first_answer(&mut waiting).await?;
    anyhow::ensure!(tasks.contains(NOOP), "a claim was answered with {tasks}");
    let mut report = of_rounds(vec![rate(count, opened)], count);
    let busy = after.cpu_ms.saturating_sub(before.cpu_ms) as f64 / (seconds as f64 * 1_000.0);
    let size = std::fs::metadata(std::env::current_exe()?)?.len() as f64 / 1_048_576.0;
    for (name, value) in [
        ("ready in, ms", host.ready_in.as_secs_f64() * 1_000.0),
        ("binary, MiB", size),
        ("server alone, MiB resident", alone.rss_mib),
        ("server, MiB resident", after.rss_mib),
        ("server CPU, % of a core", busy * 100.0),
        ("work found a claim in, ms", answered.elapsed().as_secs_f64() * 1_000.0),
    ] {
        report.more.insert(name.to_owned(), value);
    }
    drop(waiting);
    report.problems = bed.close().await?;
    Ok(report)
}

/// So many connections, each of a worker of its own that has asked for work.
async fn open(url: &str, count: usize) -> anyhow::Result<Vec<Connection>> {
    let bar = bar("opening claims", count as u64);
    let (mut opening, mut open) = (JoinSet::new(), Vec::with_capacity(count));
    for _ in 0..count {
        if opening.len() == AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            open.push(opened??);
            bar.inc(1);
        }
        opening.spawn(claim(url.to_owned()));
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(open)
}

async fn claim(url: String) -> anyhow::Result<Connection> {
    let mut connection =
        Connection::open(&url).await.context("see `ulimit -n` for how many files may be open")?;
    let (status, body) = connection.post("/v1/workers", r#"{"name":"idle","ttl_ms":3600000}"#).await?;
    anyhow::ensure!(status < 300, "a registration was answered with {status}");
    let registered: serde_json::Value = serde_json::from_slice(body)?;
    let id = registered["id"].as_str().context("the id of a worker")?;
    let claiming = format!(r#"{{"name":"idle","kinds":["{NOOP}"],"wait_ms":60000}}"#);
    connection.send(&format!("/v1/workers/{id}/claim"), &claiming).await?;
    Ok(connection)
}

/// The first answer that any of them gets.
async fn first_answer(waiting: &mut Vec<Connection>) -> anyhow::Result<String> {
    let mut answers = JoinSet::new();
    for mut connection in waiting.drain(..) {
        answers.spawn(async move {
            let (_, body) = connection.answer().await?;
            anyhow::Ok((String::from_utf8_lossy(body).into_owned(), connection))
        });
    }
    let (answer, _) = answers.join_next().await.context("nobody waits")???;
    Ok(answer)
}
