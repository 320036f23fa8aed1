//! `flowfabric bench`

use clap::Args;

use crate::problem::Problem;
use crate::settings::Settings;

/// Measure how fast it is here, beside what the store itself can do
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bench --list
  flowfabric bench --scenario submit --count 20000
  flowfabric bench --scenario steady --seconds 30 --store memory: --json

Each round has a fresh store, in memory if --store says memory: and in a file in --folder otherwise.")]
pub struct Bench {
    #[command(flatten)]
    args: ff_bench::Args,
}

impl Bench {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let store = if settings.store.starts_with("memory:") { "memory" } else { "sqlite" };
        let setting = ff_bench::Setting { store: store.to_owned(), json: settings.json };
        ff_bench::main(self.args, setting).await.map_err(|error| Problem::error(format!("{error:#}")))
    }
}
