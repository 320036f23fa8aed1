//! What the examples share: where they run, and running a worker beside the story that is told.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flowfabric::{Fabric, PublicState, Run, Worker};
use tempfile::TempDir;

/// Far longer than any of the stories takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where an example runs: the address that is its first argument, or a SQLite file that is gone afterwards.
#[derive(Debug)]
pub struct Stage {
    pub address: String,
    pub fabric: Fabric,
    _folder: Option<TempDir>,
}

impl Stage {
    /// Connects to the address that was given.
    ///
    /// # Errors
    /// The address is wrong, or the store cannot be opened.
    pub async fn open() -> Result<Stage> {
        let (address, folder) = match std::env::args().nth(1) {
            Some(address) => (address, None),
            None => {
                let folder = tempfile::tempdir().context("a temporary folder")?;
                (format!("sqlite:{}", folder.path().join("example.db").display()), Some(folder))
            }
        };
        let fabric = flowfabric::connect(&address).await?;
        Ok(Stage { address, fabric, _folder: folder })
    }

    /// Lets what is on its way to the store end.
    pub async fn close(self) {
        self.fabric.shutdown(Duration::from_secs(5)).await;
    }
}

/// Runs a worker until the story is told, and returns what the story came to.
///
/// # Errors
/// What the story fails with; the worker cannot start; or the story does not end.
pub async fn work_while<T>(worker: Worker, story: impl Future<Output = Result<T>>) -> Result<T> {
    let mut told = None;
    worker.run_until(async { told = Some(tokio::time::timeout(PATIENCE, story).await) }).await?;
    let told = told.context("the worker was drained before the story was told")?;
    told.with_context(|| format!("the story did not end within {} seconds", PATIENCE.as_secs()))?
}

/// Waits until an execution is in a state.
///
/// # Errors
/// It has ended in another one.
pub async fn reaches(run: &Run, state: PublicState) -> Result<()> {
    let mut states = run.watch().await?;
    while let Some(execution) = states.next().await? {
        if execution.public_state() == state {
            return Ok(());
        }
    }
    anyhow::bail!("execution {} has ended without being {state}", run.id())
}
