//! Bulk operations that were begun: watched, listed, stopped.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use flowfabric::{BulkInfo, BulkRun, Error};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{By, summary};
use crate::commands::watch::sleep;
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// How often a person sees how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Show how far a bulk operation has come
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bulk get bulk_1f0c9d2a77b1e0c4 --json
  flowfabric bulk get bulk_1f0c9d2a77b1e0c4 --wait --timeout 10m

With --wait on a store, this process goes on with an operation whose own process is gone.")]
pub struct Get {
    #[arg(value_name = "ID")]
    id: String,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
    /// How long to wait; then the exit code is 124
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "wait")]
    #[arg(allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

/// Stop a bulk operation; what it has done stays done
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric bulk stop bulk_1f0c9d2a77b1e0c4 --cause 'wrong lane'")]
pub struct Stop {
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    by: By,
}

impl Get {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.bulk().run(&self.id);
            let bulk = run.get().await?;
            if !self.wait || !bulk.is_running() {
                return show(&bulk, settings.json);
            }
            let runner = fabric.engine().map(|engine| engine.run_bulks());
            let followed = follow(&run, self.timeout, settings).await;
            if let Some(runner) = runner {
                runner.stop().await;
            }
            followed
        })
        .await
    }
}

impl Stop {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let bulk = fabric.bulk().run(&self.id).stop(&self.by.actor(), &self.by.cause).await?;
            told(&bulk, settings.json)
        })
        .await
    }
}

pub async fn list(settings: &Settings) -> Result<(), Problem> {
    session::with(settings, Open::Existing, Patience::Short, async |fabric| {
        let bulks = fabric.bulk().list().await?;
        if settings.json {
            return view::document(&json!({ "bulks": bulks }));
        }
        let mut table = view::table(&["id", "verb", "state", "done", "skipped", "failed", "started", "by"]);
        for it in &bulks {
            let skipped: u64 = it.skipped.values().sum();
            table.add_row(vec![
                it.id.clone(),
                it.verb.clone(),
                it.state.clone(),
                it.done.to_string(),
                skipped.to_string(),
                it.failed.to_string(),
                view::time(it.started_at.0),
                it.started_by.clone(),
            ]);
        }
        view::print_table(&table)
    })
    .await
}

/// Waits for the end, with a bar for people.
pub async fn follow(run: &BulkRun, timeout: Option<Duration>, settings: &Settings) -> Result<(), Problem> {
    let ended = tokio::select! {
        ended = session::until_ended(async || run.wait().await) => ended?,
        problem = draw(run, std::io::stderr().is_terminal() && !settings.json) => return Err(problem.into()),
        () = flowfabric::asked_to_end() => {
            eprintln!("{} goes on where a server runs; `flowfabric bulk stop {}` stops it", run.id(), run.id());
            return Err(Problem::told(Exit::NotCompleted));
        }
        () = sleep(timeout) => return Err(late(run.id())),
    };
    told(&ended, settings.json)?;
    if ended.failed > 0 { Err(Problem::told(Exit::Error)) } else { Ok(()) }
}

fn late(id: &str) -> Problem {
    Problem::timeout(format!("{id} has not ended in time"))
        .hint(format!("it goes on where a server runs; `flowfabric bulk get {id}` says how far it has come"))
}

/// Draws how far it has come until it is not needed any more.
async fn draw(run: &BulkRun, for_people: bool) -> Error {
    if !for_people {
        return std::future::pending().await;
    }
    let bar = ProgressBar::new_spinner();
    loop {
        let bulk = match run.get().await {
            Ok(bulk) => bulk,
            Err(error) => return error,
        };
        if let Some(expected) = bulk.expected.filter(|_| bar.length().is_none()) {
            bar.set_length(expected);
            let style = "{bar:30} {pos}/{len}  {per_sec}  {msg}";
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
        }
        bar.set_position(bulk.seen);
        bar.set_message(format!("{} done", bulk.done));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn told(bulk: &BulkInfo, json: bool) -> Result<(), Problem> {
    if json { view::document(&json!(bulk)) } else { view::line(&summary(bulk)) }
}

fn show(bulk: &BulkInfo, json: bool) -> Result<(), Problem> {
    if json {
        return view::document(&json!(bulk));
    }
    view::line(&summary(bulk))?;
    let left = bulk.expected.map(|expected| expected.saturating_sub(bulk.seen));
    let mut fields = vec![
        ("started", format!("{} by {}", view::time(bulk.started_at.0), bulk.started_by)),
        ("cause", bulk.cause.clone()),
        ("rate", bulk.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/s"))),
        ("seen", bulk.seen.to_string()),
        ("left", left.map_or_else(|| "-".to_owned(), |left| left.to_string())),
        ("ended", bulk.ended_at.map_or_else(|| "-".to_owned(), |at| view::time(at.0))),
    ];
    let problems = bulk.problems.iter().map(|it| format!("{}  {}", it.execution, it.detail));
    fields.extend(problems.map(|text| ("not done", text)));
    view::print_fields(&fields)
}
