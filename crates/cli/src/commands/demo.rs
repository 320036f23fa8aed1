//! `flowfabric demo`

use std::path::PathBuf;

use clap::Args;

use super::serve::Serve;
use crate::problem::Problem;
use crate::settings::Settings;

/// See it work: retries, a killed worker and its recovery, priorities, a deadline, a cancel, a flow, in a few seconds
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric demo
  flowfabric demo --keep ./demo
  flowfabric demo --serve
  flowfabric demo --store postgres://me@db.example/empty
  flowfabric demo --json | jq .counts")]
pub struct Demo {
    /// Keep the store in this folder, to look at it afterwards
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Play on the store of the settings, which must be empty, instead of a new file; --store means that, too
    #[arg(long, conflicts_with = "keep")]
    here: bool,
    /// Stay up afterwards and serve the store over HTTP
    #[arg(long)]
    serve: bool,
    /// Where to serve it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400", requires = "serve")]
    listen: String,
}

impl Demo {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        settings.no_server()?;
        if self.here {
            settings.embedded()?;
        }
        let serve = self.serve.then(|| Serve::at(&self.listen)).transpose()?;
        if settings.store_is_named && self.keep.is_some() {
            return Err(Problem::usage("--keep is for a new file: give it or --store, not both"));
        }
        match self.here || settings.store_is_named {
            true => crate::demo::run_on(settings.store.clone(), true, serve, settings).await,
            false => crate::demo::run(self.keep, serve, settings).await,
        }
    }
}
