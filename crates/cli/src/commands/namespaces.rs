//! `flowfabric namespaces`

use clap::Args;
use ff_api::namespace::NamespacesDoc;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// List the namespaces that have executions, and how many
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric namespaces
  flowfabric namespaces --json

A namespace needs not be made: submit with --namespace and it is there. `flowfabric counts` tells lanes and
kinds apart, too.")]
pub struct Namespaces {}

impl Namespaces {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let found = NamespacesDoc::of(&fabric.counts().await?);
            if settings.json {
                return view::document(&json!(found));
            }
            let mut table = view::table(&["namespace", "executions", "states"]);
            for it in &found.namespaces {
                let states: Vec<String> =
                    it.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
                table.add_row(vec![it.name.clone(), it.executions.to_string(), states.join(", ")]);
            }
            view::print_table(&table)
        })
        .await
    }
}
