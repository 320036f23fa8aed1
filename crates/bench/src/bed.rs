//! Where a round runs: a fresh store, a fabric on it, and what the store did meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ff_store::{Commit, MemoryStore, Store};
use ff_store_sqlite::{SqliteStore, Stats};
use flowfabric::{Context, Fabric, Filter, Options, PublicState, Submission, TaskFailure, Worker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::recording::Recording;
use crate::{Args, Setting};

/// The kind of work that does nothing.
pub const NOOP: &str = "noop";

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A fresh store and a fabric on it.
pub struct Bed {
    pub fabric: Fabric,
    memory: Option<Arc<MemoryStore>>,
    sqlite: Option<Arc<SqliteStore>>,
    recording: Option<Arc<Recording>>,
    pub folder: PathBuf,
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
        let file = folder.join("bench.db");
        let sqlite = match setting.store.as_str() {
            "sqlite" => Some(Arc::new(SqliteStore::open(&file, Default::default())?)),
            "memory" => None,
            other => anyhow::bail!("bench runs on sqlite or memory, not on {other:?}"),
        };
        let memory = sqlite.is_none().then(|| Arc::new(MemoryStore::new(1)));
        let plain: Arc<dyn Store> = match (&sqlite, &memory) {
            (Some(sqlite), _) => sqlite.clone(),
            (None, Some(memory)) => memory.clone(),
            (None, None) => anyhow::bail!("there is no store"),
        };
        let recording = record.then(|| Arc::new(Recording::new(plain.clone())));
        let store: Arc<dyn Store> = match &recording {
            Some(recording) => recording.clone(),
            None => plain,
        };
        let fabric = Fabric::on_store(store, Options::new()).await?;
        Ok(Bed { fabric, memory, sqlite, recording, folder, _temporary: temporary })
    }

    /// Opens a fabric on an existing file.
    pub async fn open(file: &Path) -> anyhow::Result<Bed> {
        let sqlite = Arc::new(SqliteStore::open(file, Default::default())?);
        let fabric = Fabric::on_store(sqlite.clone(), Options::new()).await?;
        let folder = file.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Bed { fabric, memory: None, sqlite: Some(sqlite), recording: None, folder, _temporary: None })
    }

    /// Copies the store as it is now into a file.
    pub async fn snapshot(&self, to: &Path) -> anyhow::Result<()> {
        if let Some(sqlite) = &self.sqlite {
            sqlite.backup(to).await?;
        }
        Ok(())
    }

    pub fn stats(&self) -> Option<Stats> {
        self.sqlite.as_ref().map(|sqlite| sqlite.stats())
    }

    /// From now on, commits are written down.
    pub fn start_recording(&self) {
        if let Some(recording) = &self.recording {
            recording.start();
        }
    }

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

    pub async fn completed(&self) -> anyhow::Result<u64> {
        let filter = Filter { states: vec![PublicState::Completed], ..Filter::default() };
        Ok(self.fabric.count(&filter).await?.count)
    }

    /// Waits until `count` executions have ended durably.
    pub async fn until_completed(&self, count: u64, each: impl Fn(u64)) -> anyhow::Result<()> {
        let mut last = (0, Instant::now());
        loop {
            let done = self.completed().await?;
            each(done);
            if done >= count {
                return Ok(());
            }
            if done > last.0 {
                last = (done, Instant::now());
            }
            anyhow::ensure!(
                last.1.elapsed() < Duration::from_secs(60),
                "no progress for a minute at {done} of {count}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops the fabric and checks that everything in the store agrees.
    pub async fn close(self) -> anyhow::Result<Vec<String>> {
        self.fabric.shutdown(Duration::from_secs(30)).await;
        let store: Arc<dyn Store> = match &self.memory {
            Some(memory) => Arc::new(memory.another()),
            None => Arc::new(SqliteStore::open(self.folder.join("bench.db"), Default::default())?),
        };
        let findings = ff_engine::doctor::examine(&*store).await?;
        store.close().await;
        let named = self.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bench-"));
        if self._temporary.is_none() && named {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
        Ok(findings.problems)
    }
}

/// A worker running beside the measurement.
pub struct Crew {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<flowfabric::Stopped, flowfabric::Error>>,
}

impl Crew {
    /// A worker whose handler does nothing.
    pub fn start(fabric: &Fabric, concurrency: usize, capabilities: &[String]) -> Crew {
        let mut worker = Worker::new(fabric).name("bench").concurrency(concurrency);
        for word in capabilities {
            worker = worker.capability(word);
        }
        let worker = worker.on(NOOP, |_: Context, _: serde_json::Value| async { Ok::<(), TaskFailure>(()) });
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
