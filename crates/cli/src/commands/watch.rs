//! `flowfabric watch`

use std::time::Duration;

use clap::Args;
use flowfabric::{Execution, ExecutionId, PublicState, Watch as States};

use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Follow one execution until it ends; the exit code is 0 if it completed and 6 if not
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric watch $(flowfabric submit greet) --timeout 1m")]
pub struct Watch {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// How long to wait for the end
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

impl Watch {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            // Where it stands is shown in any case; the time counts from then.
            let watch = fabric.watch(self.id).await?;
            tokio::select! {
                biased;
                ended = follow(watch, settings.json) => ended,
                () = sleep(self.timeout) => Err(late(self.id)),
                // Whoever goes on only if it has completed must not go on now.
                () = flowfabric::asked_to_end() => Err(Problem::told(Exit::NotCompleted)),
            }
        })
        .await
    }
}

async fn follow(mut watch: States, json: bool) -> Result<(), Problem> {
    let mut last = None;
    while let Some(execution) = watch.next().await? {
        if json {
            view::json_line(&view::execution_value(&execution))?;
        } else {
            view::line(&status_line(&execution))?;
        }
        last = Some(execution.public_state());
    }
    match last {
        Some(PublicState::Completed) => Ok(()),
        _ => Err(Problem::told(Exit::NotCompleted)),
    }
}

fn status_line(execution: &Execution) -> String {
    let (state, reason) = (execution.public_state(), execution.reason());
    let detail = view::detail(execution, execution.live.changed_at);
    let attempt = execution.attempt_number();
    let text =
        format!("{}  {state:9}  {reason:20}  try {attempt}  {detail}", view::time(execution.live.changed_at));
    text.trim_end().to_owned()
}

/// Ends after so long, or never.
pub async fn sleep(timeout: Option<Duration>) {
    match timeout {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

pub fn late(id: ExecutionId) -> Problem {
    Problem::timeout(format!("execution {id} has not ended in time"))
        .hint(format!("it goes on; `flowfabric explain {id}` says what it waits for"))
}
