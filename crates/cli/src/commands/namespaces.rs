//! `flowfabric namespaces`

use clap::Args;
use ff_api::namespace::{NamespaceDoc, NamespacesDoc};
use flowfabric::Namespace;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// List the namespaces that have executions, and how many; or show one
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric namespaces
  flowfabric namespaces billing
  flowfabric namespaces --json

A namespace needs not be made: submit with --namespace and it is there. `flowfabric counts` tells lanes and
kinds apart, too.")]
pub struct Namespaces {
    /// Only this one; in a namespace that nobody has used is nothing
    #[arg(value_name = "NAME")]
    name: Option<Namespace>,
}

impl Namespaces {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let mut found = NamespacesDoc::of(&fabric.counts().await?);
            if let Some(name) = &self.name {
                found.namespaces.retain(|it| it.name == name.as_str());
                let used = found.namespaces.pop().unwrap_or_else(|| NamespaceDoc::empty(name));
                if settings.json {
                    return view::document(&json!(used));
                }
                found.namespaces.push(used);
            }
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
