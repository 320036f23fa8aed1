//! `flowfabric doctor`

use clap::Args;
use serde_json::json;

use crate::problem::Problem;
use crate::session;
use crate::settings::Settings;
use crate::view;

/// Examine every record of a store that is not in use, and say what does not fit together
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric doctor --store sqlite:jobs.db")]
pub struct Doctor {}

impl Doctor {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let store = session::open_store(settings).await?;
        let found = ff_engine::doctor::examine(&*store).await;
        store.close().await;
        let found = found?;
        if settings.json {
            let value = json!({ "ok": found.problems.is_empty(), "executions": found.executions, "flows": found.flows, "dead_letters": found.dead_letters, "problems": found.problems });
            view::document(&value)?;
        } else {
            found.problems.iter().try_for_each(|problem| view::line(problem))?;
            view::line(&format!(
                "{} executions and {} flows examined, {} problems",
                found.executions,
                found.flows,
                found.problems.len()
            ))?;
            if found.dead_letters > 0 {
                view::line(&format!("{} dead letters; see flowfabric inbox list", found.dead_letters))?;
            }
        }
        if found.problems.is_empty() {
            return Ok(());
        }
        Err(Problem::error("the store is not in order")
            .hint("keep a copy of the store and report what is listed above"))
    }
}
