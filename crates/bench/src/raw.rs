//! The raw limit: the rows of a recorded run, in its transactions, written by a bare client.

use std::path::PathBuf;
use std::time::Duration;

use ff_scratch::Database;
use ff_store::{Commit, Store as _};
use ff_store_postgres::Address;

use crate::bed::Bed;
use crate::ground::{Ground, open_postgres};
use crate::report::Report;

/// Where the replay starts from: the store as it was when the recorded run began.
#[derive(Debug)]
pub enum Start {
    /// A copy of the file.
    File(PathBuf),
    /// A database of its own, and what has to be written into it first.
    Database(Box<Database>, Vec<Vec<Commit>>),
}

impl Start {
    /// `filled` is everything that was committed until now.
    pub async fn of(bed: &Bed, filled: Vec<Vec<Commit>>) -> anyhow::Result<Start> {
        Ok(match &bed.ground {
            Ground::Memory(_) | Ground::Lent { .. } => anyhow::bail!("there is no raw limit of this store"),
            Ground::Sqlite { store, .. } => {
                let to = bed.folder.join("start.db");
                store.backup(&to).await?;
                Start::File(to)
            }
            Ground::Postgres { database, .. } => {
                let own = Database::create(database.admin_url(), None)?;
                open_postgres(&own.url()).await?.close().await;
                Start::Database(Box::new(own), filled)
            }
        })
    }
}

/// Replays what was recorded, and puts the figures into the report.
pub async fn compare(
    report: &mut Report,
    start: Start,
    recorded: Vec<Vec<Commit>>,
    count: usize,
) -> anyhow::Result<()> {
    let rows: u64 = recorded.iter().flatten().map(|commit| commit.changes.rows() as u64).sum();
    let (replayed, time): (u64, Duration) = match start {
        Start::File(file) => ff_store_sqlite::raw::replay(&file, recorded)?,
        Start::Database(database, before) => {
            let writers = ff_store_postgres::Options::default().writers;
            let address = Address::parse(&database.url())?;
            ff_store_postgres::raw::replay(address, writers, before, recorded).await?
        }
    };
    let raw_per_s = count as f64 / time.as_secs_f64().max(1e-9);
    report.raw_per_s = Some(raw_per_s);
    report.fraction = Some(report.rate_per_s / raw_per_s);
    if let Some(per) = &mut report.per_execution {
        per.raw_rows = Some((rows, replayed));
    }
    if rows != replayed {
        report.problems.push(format!("{rows} rows were recorded, but {replayed} replayed"));
    }
    Ok(())
}
