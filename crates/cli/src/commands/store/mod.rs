//! `flowfabric store`

mod copy;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ff_store::Store as _;
use ff_store_postgres::{Address, Migrated, PostgresStore};
use ff_store_sqlite::{Options, SqliteStore};
use serde_json::json;

use crate::problem::Problem;
use crate::session::{sqlite_path, without_password};
use crate::settings::Settings;
use crate::view;

/// Look after a store: its schema, its file
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric store migrate --store postgres://owner@db.example/jobs
  flowfabric store backup /backups/jobs.db
  flowfabric store check
  flowfabric store copy --store sqlite:jobs.db postgres://owner@db.example/jobs

Backup and check are for files; PostgreSQL has pg_dump and pg_basebackup, see docs/postgres.md.")]
pub struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create the schema or bring it up to date; opening a store does the same if its role may
    Migrate,
    /// Copy the store, while it is in use, into a new file
    Backup {
        /// The new file; it must not exist
        file: PathBuf,
    },
    /// Read the whole file and say what is wrong with it
    Check,
    Copy(copy::Copy),
}

impl Store {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let settings = &settings.embedded()?;
        match self.what {
            What::Migrate => migrate(settings).await,
            What::Copy(copy) => copy.run(settings).await,
            What::Backup { file } => {
                let store = open(&settings.store).await?;
                let result = backup(&store, file, settings.json).await;
                store.close().await;
                result
            }
            What::Check => {
                let store = open(&settings.store).await?;
                let result = check(&store, settings.json).await;
                store.close().await;
                result
            }
        }
    }
}

async fn open(url: &str) -> Result<SqliteStore, Problem> {
    let path = sqlite_path(url).ok_or_else(|| {
        let shown = without_password(url);
        Problem::invalid(format!("store is {shown:?}; this command needs a file, such as sqlite:jobs.db"))
    })?;
    if !path.exists() {
        return Err(Problem::not_found(format!("store: there is no file {}", path.display())));
    }
    let open = tokio::task::spawn_blocking(move || SqliteStore::open(path, Options::default())).await;
    Ok(open.map_err(|error| Problem::error(error.to_string()))??)
}

async fn migrate(settings: &Settings) -> Result<(), Problem> {
    if sqlite_path(&settings.store).is_some() {
        // A file has one owner, and opening it is all there is to do.
        open(&settings.store).await?.close().await;
        return match settings.json {
            true => view::document(&json!({ "up_to_date": true })),
            false => view::line("the schema is up to date"),
        };
    }
    if !settings.store.trim().starts_with("postgres") {
        let text = format!("store is {:?}; this command needs postgres://… or sqlite:PATH", settings.store);
        return Err(Problem::invalid(text));
    }
    let address = Address::parse(&settings.store)?;
    let Migrated { from, to } =
        PostgresStore::migrate(address, ff_store_postgres::Options::default()).await?;
    if settings.json {
        return view::document(&json!({ "from": from, "to": to }));
    }
    view::line(&match from {
        0 => format!("created schema {to}"),
        _ if from == to => format!("schema {to} is up to date"),
        _ => format!("migrated from schema {from} to {to}"),
    })
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
