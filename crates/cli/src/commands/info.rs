//! `flowfabric info`

use clap::Args;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Show where the work is kept, what may be submitted there, and what waits and fails
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric info
  flowfabric info --server https://jobs.example --json

Limits are set in the table [limits] of flowfabric.toml, where the server or the embedded engine starts. What waits and
fails is of the process that answers: a server, or this command itself.")]
pub struct Info {}

impl Info {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let about = fabric.about().await?;
            let limits = fabric.limits();
            // A token may be too weak for it; the rest is for everybody.
            let stats = fabric.stats().await.ok();
            if settings.json {
                return view::document(&json!({ "about": about, "limits": limits, "stats": stats }));
            }
            let mut rows = vec![
                ("place", session::without_password(settings.server.as_ref().unwrap_or(&settings.store))),
                ("version", about.version),
                ("store", about.store),
                ("server", about.server),
                ("authentication", if about.authentication { "tokens" } else { "none" }.to_owned()),
                ("role", about.role),
            ];
            if let Some(stats) = &stats {
                rows.push(("waiting commands", stats.queued.to_string()));
                rows.push(("waiting claims", stats.waiting_polls.to_string()));
                rows.push(("stuck", stats.stuck.len().to_string()));
            }
            let mut table = view::table(&["what", "value"]);
            for (what, value) in rows {
                table.add_row(vec![what.to_owned(), value]);
            }
            for (name, value) in fields(limits)? {
                table.add_row(vec![format!("limit {name}"), value.to_string()]);
            }
            view::print_table(&table)
        })
        .await
    }
}

fn fields(limits: &flowfabric::Limits) -> Result<serde_json::Map<String, serde_json::Value>, Problem> {
    match serde_json::to_value(limits) {
        Ok(serde_json::Value::Object(fields)) => Ok(fields),
        _ => Err(Problem::error("the limits cannot be shown")),
    }
}
