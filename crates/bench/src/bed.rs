//! Where a round runs: a fresh store, a fabric on it, and what the store did meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ff_engine::Engine;
use ff_store::{Commit, Store};
use flowfabric::{Context, Fabric, Filter, Options, PublicState, Submission, TaskFailure, Worker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ground::{Cost, Ground};
use crate::host::{Host, Told};
use crate::recording::Recording;
use crate::{Args, Setting};

/// The kind of work that does nothing.
pub const NOOP: &str = "noop";

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A fresh store and a fabric on it.
pub struct Bed {
    pub fabric: Fabric,
    pub ground: Ground,
    recording: Option<Arc<Recording>>,
    /// The server in a process of its own that the fabric reaches over HTTP.
    pub host: Option<Host>,
    pub folder: PathBuf,
    /// How many executions the handlers of this bed have run.
    handled: Arc<AtomicU64>,
    _temporary: Option<tempfile::TempDir>,
}

impl Bed {
    pub async fn make(args: &Args, setting: &Setting, record: bool) -> anyhow::Result<Bed> {
        let (folder, temporary) = match &args.folder {
            Some(folder) => {
                let name = format!("bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
                (folder.join(name), None)
            }
            None => {
                let temporary = tempfile::tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        std::fs::create_dir_all(&folder)?;
        let ground = Ground::make(setting.kind, &folder, setting.server.as_deref()).await?;
        let recording = record.then(|| Arc::new(Recording::new(ground.store())));
        let store: Arc<dyn Store> = match &recording {
            Some(recording) => recording.clone(),
            None => ground.store(),
        };
        let (host, fabric) = if args.http {
            let place = ground.place().context("--http needs a store that another process can open")?;
            store.close().await;
            let host = Host::start(&place).await?;
            let fabric = flowfabric::connect(&host.url).await?;
            (Some(host), fabric)
        } else {
            (None, Fabric::on_store(store, Options::new()).await?)
        };
        Ok(Bed { fabric, ground, recording, host, folder, handled: Arc::default(), _temporary: temporary })
    }

    /// A fabric on a store that another process has filled.
    pub async fn on(place: &str) -> anyhow::Result<Bed> {
        let ground = Ground::open(place).await?;
        let fabric = Fabric::on_store(ground.store(), Options::new()).await?;
        let folder = PathBuf::from(".");
        let (recording, host) = (None, None);
        Ok(Bed { fabric, ground, recording, host, folder, handled: Arc::default(), _temporary: None })
    }

    pub fn engine(&self) -> anyhow::Result<&Engine> {
        engine_of(&self.fabric)
    }

    pub fn cost(&self) -> anyhow::Result<Option<Cost>> {
        let Some(host) = &self.host else { return self.ground.cost() };
        let Told { cost, cpu_ms, rss_mib } = host.told()?;
        let mut sum = match &self.ground {
            // The log and the time of the database's processes are counted by its owner.
            Ground::Postgres { .. } => self.ground.cost()?.unwrap_or_default(),
            _ => Cost { wal_bytes: cost.wal_bytes, ..Cost::default() },
        };
        sum.add(&cost);
        Ok(Some(Cost { host: Some((cpu_ms, rss_mib)), ..sum }))
    }

    /// From now on, commits are written down.
    pub fn start_recording(&self) {
        if let Some(recording) = &self.recording {
            recording.start();
        }
    }

    /// What was written down so far, which is then forgotten.
    pub fn take_recorded(&self) -> Vec<Vec<Commit>> {
        self.recording.as_ref().map(|recording| recording.take()).unwrap_or_default()
    }

    /// Submits `count` executions, a thousand at a time.
    pub async fn fill(
        &self,
        count: usize,
        submission: impl Fn(usize) -> Submission,
        each: impl Fn(usize),
    ) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < count {
            let batch: Vec<Submission> = (sent..count.min(sent + 1_000)).map(&submission).collect();
            sent += batch.len();
            for run in self.fabric.submit_many(batch).await {
                run?;
            }
            each(sent);
        }
        Ok(())
    }

    /// Where handlers count what they have run.
    pub fn handled(&self) -> Arc<AtomicU64> {
        self.handled.clone()
    }

    pub async fn completed(&self) -> anyhow::Result<u64> {
        let filter = Filter { states: vec![PublicState::Completed], ..Filter::default() };
        Ok(self.fabric.count(&filter).await?.count)
    }

    /// Waits until `count` executions more than `before` have ended durably. The store is asked only when the
    /// handlers have run all of them, so that asking is not part of what is measured.
    pub async fn until_completed(&self, before: u64, count: u64, each: impl Fn(u64)) -> anyhow::Result<()> {
        let handled_before = before.min(self.handled.load(Ordering::Relaxed));
        let mut last = (0, Instant::now());
        loop {
            let handled = self.handled.load(Ordering::Relaxed).saturating_sub(handled_before);
            each(handled.min(count));
            if handled >= count && self.completed().await? >= before + count {
                return Ok(());
            }
            if handled > last.0 {
                last = (handled, Instant::now());
            }
            anyhow::ensure!(
                last.1.elapsed() < Duration::from_secs(60),
                "no progress for a minute at {handled} of {count}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops the fabric and checks that everything in the store agrees.
    pub async fn close(self) -> anyhow::Result<Vec<String>> {
        self.fabric.shutdown(Duration::from_secs(30)).await;
        if let Some(host) = self.host {
            host.end().await?;
        }
        let store = self.ground.again().await?;
        let findings = ff_engine::doctor::examine(&*store).await?;
        store.close().await;
        let named = self.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bench-"));
        if self._temporary.is_none() && named {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
        Ok(findings.problems)
    }
}

/// The engine of a fabric, which every bed has in its own process.
pub fn engine_of(fabric: &Fabric) -> anyhow::Result<&Engine> {
    fabric.engine().context("a fabric with its engine in this process")
}

/// A worker running beside the measurement.
pub struct Crew {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<flowfabric::Stopped, flowfabric::Error>>,
}

impl Crew {
    /// A worker whose handler does nothing.
    pub fn start(bed: &Bed, concurrency: usize, capabilities: &[String]) -> Crew {
        let mut worker = Worker::new(&bed.fabric).name("bench").concurrency(concurrency);
        for word in capabilities {
            worker = worker.capability(word);
        }
        let handled = bed.handled.clone();
        let worker = worker.on(NOOP, move |_: Context, _: serde_json::Value| {
            handled.fetch_add(1, Ordering::Relaxed);
            async { Ok::<(), TaskFailure>(()) }
        });
        Crew::of(worker)
    }

    /// A worker with handlers of its own.
    pub fn of(worker: Worker) -> Crew {
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            worker
                .run_until(async {
                    let _ = stopped.await;
                })
                .await
        });
        Crew { stop, running }
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        let _ = self.stop.send(());
        self.running.await??;
        Ok(())
    }
}
