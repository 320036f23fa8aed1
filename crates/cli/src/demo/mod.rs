//! The demonstration: a few seconds of real work on a new SQLite file or an empty store, with everything that goes wrong in real
//! life, and a check that all of it ended as it should.
//!
//! | to read about | open |
//! |---|---|
//! | what happens, part by part | `parts.rs` |
//! | the part that is a flow | `flow.rs` |
//! | the part that waits for an approval | `approval.rs` |
//! | the worker that is killed | `doomed.rs` |
//! | what is shown meanwhile | `live.rs` |
//! | the counts and the table at the end | `report.rs` |

mod approval;
pub mod doomed;
mod flow;
mod live;
mod parts;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowfabric::{EventFilter, Fabric, Start, Worker};
use tokio::sync::watch;

use crate::commands::serve::Serve;
use crate::problem::Problem;
use crate::session::without_password;
use crate::settings::Settings;
use live::Live;
use parts::Part;
use report::{Left, Report};

/// Far longer than it takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const FILE: &str = "demo.db";

/// What the parts share.
pub struct Stage {
    pub fabric: Fabric,
    pub url: String,
    pub live: Arc<Live>,
    /// Turns true when all workers are to stop.
    stop: watch::Sender<bool>,
}

impl Stage {
    /// Runs a worker in the background until the demonstration is over.
    pub fn employ(&self, worker: Worker) {
        let mut stop = self.stop.subscribe();
        let over = async move {
            let _ = stop.wait_for(|over| *over).await;
        };
        let live = self.live.clone();
        tokio::spawn(async move {
            if let Err(error) = worker.run_until(over).await {
                live.say(&format!("a worker stopped: {error}"));
            }
        });
    }
}

/// Plays on a new file, and serves it afterwards if that is wanted.
pub async fn run(keep: Option<PathBuf>, serve: Option<Serve>, settings: &Settings) -> Result<(), Problem> {
    let temporary = match &keep {
        Some(_) => None,
        None => Some(tempfile::tempdir()?),
    };
    let folder = match (&keep, &temporary) {
        (Some(folder), _) => prepare(folder)?,
        (None, Some(folder)) => folder.path().to_owned(),
        (None, None) => PathBuf::from("."),
    };
    let url = format!("sqlite:{}", folder.join(FILE).display());
    run_on(url, keep.is_some(), serve, settings).await
}

/// Plays on a store, and serves it afterwards if that is wanted.
pub async fn run_on(
    url: String,
    stays: bool,
    serve: Option<Serve>,
    settings: &Settings,
) -> Result<(), Problem> {
    let report = perform(&url, settings.json).await?;
    let shown = stays.then(|| without_password(&url));
    let left = match (&serve, shown) {
        (Some(serve), shown) => Left::Server(serve.address().to_owned(), shown),
        (None, Some(shown)) => Left::Store(shown),
        (None, None) => Left::Nothing,
    };
    report.print(&left, settings.json)?;
    match serve {
        Some(serve) => serve.run(&Settings { store: url, ..settings.clone() }).await,
        None => Ok(()),
    }
}

async fn perform(url: &str, json: bool) -> Result<Report, Problem> {
    let fabric = flowfabric::connect(url).await?;
    // The counts at the end are those of the whole store.
    let played = match fabric.counts().await?.is_empty() {
        true => Ok(tokio::time::timeout(PATIENCE, play(fabric.clone(), url.to_owned(), json)).await),
        false => {
            Err(Problem::invalid("store: the demonstration needs an empty store, this one holds executions")
                .hint("give another --store"))
        }
    };
    fabric.shutdown(Duration::from_secs(5)).await;
    played?.map_err(|_| {
        Problem::timeout(format!("the demonstration did not end within {} seconds", PATIENCE.as_secs()))
    })?
}

/// The folder to keep, which must not hold another demonstration.
fn prepare(folder: &Path) -> Result<PathBuf, Problem> {
    let cannot = |error| Problem::invalid(format!("keep: cannot use {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let folder = folder.canonicalize().map_err(cannot)?;
    let file = folder.join(FILE);
    if file.exists() {
        return Err(Problem::invalid(format!("keep: {} exists already", file.display()))
            .hint("give a folder without one"));
    }
    Ok(folder)
}

async fn play(fabric: Fabric, url: String, json: bool) -> Result<Report, Problem> {
    let started = Instant::now();
    let live = Arc::new(Live::new(json));
    let follower = tokio::spawn(follow(fabric.clone(), live.clone()));
    let stage = Stage { fabric, url, live, stop: watch::Sender::new(false) };
    let outcome = parts::all(&stage).await;
    let _ = stage.stop.send(true);
    follower.abort();
    stage.live.finish();
    Report::gather(&stage.fabric, outcome?, started.elapsed()).await
}

/// Moves the bars along with the events.
async fn follow(fabric: Fabric, live: Arc<Live>) {
    let Ok(mut events) = fabric.events(EventFilter::default(), Start::Beginning).await else { return };
    while let Ok(seen) = events.next().await {
        let event = seen.event;
        if event.fact.ends()
            && let Some(part) = event.tags.get(parts::TAG).and_then(Part::from_word)
        {
            live.one_more(part);
        }
    }
}
