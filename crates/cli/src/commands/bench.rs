//! `flowfabric bench`

use clap::Args;
use ff_bench::{Kind, Setting};

use crate::problem::Problem;
use crate::settings::Settings;

/// Measure how fast it is here, beside what the store itself can do
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bench --list
  flowfabric bench --scenario submit --count 20000
  flowfabric bench --scenario steady --seconds 30 --store memory: --json
  flowfabric bench --http --scenario drain --scenario submit
  flowfabric bench --scenario drain --scenario held-horizon --store postgres:
  flowfabric bench --scenario servers --scenario servers-mixed --store postgres: --rounds 1

Each round has a fresh store: in memory if --store says memory:, in a database of its own if it says postgres: (on a
private server that is started for it) or postgres://…, and in a file in --folder otherwise.")]
pub struct Bench {
    #[command(flatten)]
    args: ff_bench::Args,
}

impl Bench {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        settings.no_server()?;
        let (kind, server) = match settings.store.split_once(':') {
            Some(("memory", _)) => (Kind::Memory, None),
            Some(("postgres" | "postgresql", "")) => (Kind::Postgres, None),
            Some(("postgres" | "postgresql", _)) => (Kind::Postgres, Some(settings.store.clone())),
            _ => (Kind::Sqlite, None),
        };
        let setting = Setting { kind, server, json: settings.json };
        ff_bench::main(self.args, setting).await.map_err(|error| Problem::error(format!("{error:#}")))
    }
}
