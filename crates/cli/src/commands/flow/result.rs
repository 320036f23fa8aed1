//! `flowfabric flow result`

use std::time::Duration;

use clap::Args;
use flowfabric::FlowId;

use super::late;
use super::submit::wait_for;
use crate::commands::watch::sleep;
use crate::parse;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;

/// Wait for the end of a flow and print its result; exit code 6 if it does not complete
#[derive(Args, Debug)]
#[command(after_help = "Example:
  flowfabric flow result 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --timeout 1m")]
pub struct Result {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// How long to wait for the end
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

impl Result {
    pub async fn run(self, settings: &Settings) -> std::result::Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            tokio::select! {
                ended = wait_for(&run, settings.json) => ended,
                () = sleep(self.timeout) => Err(late(self.id)),
            }
        })
        .await
    }
}
