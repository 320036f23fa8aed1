//! `flowfabric result`

use std::time::Duration;

use clap::Args;
use flowfabric::{ExecutionId, PublicState, Run};
use serde_json::json;

use super::watch::{late, sleep};
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Wait for the end of an execution and print its result; exit code 6 if it does not complete
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric result 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric result 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --timeout 1m --json | jq .state

`flowfabric get` shows what there is now, without waiting.")]
pub struct Result {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// How long to wait for the end
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

impl Result {
    pub async fn run(self, settings: &Settings) -> std::result::Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.run(self.id);
            tokio::select! {
                ended = wait_for(&run, settings.json) => ended,
                () = sleep(self.timeout) => Err(late(self.id)),
            }
        })
        .await
    }
}

/// Prints the result of an execution when it has ended; the exit code says whether it completed.
pub async fn wait_for(run: &Run, json: bool) -> std::result::Result<(), Problem> {
    if !json {
        eprintln!("{}", run.id());
    }
    let ended = session::until_ended(async || run.wait().await).await?;
    let execution = &ended.execution;
    let stored = execution.end().is_some_and(|end| end.result_bytes.is_some());
    let hidden = stored && ended.result.is_none();
    let completed = execution.public_state() == PublicState::Completed;
    if json {
        let mut value = view::execution_value(execution);
        value["existing"] = json!(run.existing());
        value["result"] = json!(ended.result.as_ref().map(view::payload_value));
        if hidden {
            value["hidden"] = json!(["result"]);
        }
        view::document(&value)?;
        return if completed { Ok(()) } else { Err(Problem::told(Exit::NotCompleted)) };
    }
    if let Some(result) = &ended.result {
        view::line(&view::payload_value(result).to_string())?;
    }
    if hidden {
        eprintln!("note: the result is hidden from this token; use one that may see payloads");
    }
    if completed {
        return Ok(());
    }
    match flowfabric::result_of::<serde::de::IgnoredAny>(&ended) {
        Err(error) => Err(Problem::from(error)
            .hint(format!("`flowfabric get {} --attempts` shows every attempt", run.id()))),
        Ok(_) => Ok(()),
    }
}
