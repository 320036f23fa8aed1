//! `flowfabric store`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ff_store::Store as _;
use ff_store_sqlite::{Options, SqliteStore};
use serde_json::json;

use crate::problem::Problem;
use crate::session::sqlite_path;
use crate::settings::Settings;
use crate::view;

/// Look after the file of a store
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric store backup /backups/jobs.db
  flowfabric store check")]
pub struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Copy the store, while it is in use, into a new file
    Backup {
        /// The new file; it must not exist
        file: PathBuf,
    },
    /// Read the whole file and say what is wrong with it
    Check,
}

impl Store {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let store = open(&settings.store).await?;
        let result = match self.what {
            What::Backup { file } => backup(&store, file, settings.json).await,
            What::Check => check(&store, settings.json).await,
        };
        store.close().await;
        result
    }
}

pub async fn open(url: &str) -> Result<SqliteStore, Problem> {
    let path = sqlite_path(url).ok_or_else(|| {
        Problem::invalid(format!("store is {url:?}; this command needs a file, such as sqlite:jobs.db"))
    })?;
    if !path.exists() {
        return Err(Problem::not_found(format!("store: there is no file {}", path.display())));
    }
    let open = tokio::task::spawn_blocking(move || SqliteStore::open(path, Options::default())).await;
    Ok(open.map_err(|error| Problem::error(error.to_string()))??)
}

async fn backup(store: &SqliteStore, file: PathBuf, json: bool) -> Result<(), Problem> {
    store.backup(&file).await?;
    let bytes = std::fs::metadata(&file).map_or(0, |it| it.len());
    if json {
        return view::document(&json!({ "file": file, "bytes": bytes }));
    }
    view::line(&format!("{}  {bytes} bytes", file.display()))
}

async fn check(store: &SqliteStore, json: bool) -> Result<(), Problem> {
    let faults = store.check().await?;
    if json {
        view::document(&json!({ "ok": faults.is_empty(), "faults": faults }))?;
    } else if faults.is_empty() {
        view::line("ok")?;
    }
    match faults.first() {
        None => Ok(()),
        Some(fault) => Err(Problem::error(format!("store: the file is damaged: {fault}"))
            .hint("stop every process that uses it, keep a copy, and restore a backup")),
    }
}
