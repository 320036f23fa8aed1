//! `flowfabric demo`

use std::path::PathBuf;

use clap::Args;

use crate::problem::Problem;
use crate::settings::Settings;

/// See it work: retries, a killed worker and its recovery, priorities, a deadline, a cancel, a flow, in a few seconds
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric demo
  flowfabric demo --keep ./demo
  flowfabric demo --here --store postgres://me@db.example/empty
  flowfabric demo --json | jq .counts")]
pub struct Demo {
    /// Keep the store in this folder, to look at it afterwards
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Play on the store of --store, which must be empty, instead of a new file
    #[arg(long, conflicts_with = "keep")]
    here: bool,
}

impl Demo {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        match self.here {
            true => crate::demo::run_on(&settings.store, settings.json).await,
            false => crate::demo::run(self.keep, settings.json).await,
        }
    }
}
