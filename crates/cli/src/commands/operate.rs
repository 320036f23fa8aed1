//! What commands that change executions have in common: who and why, one or many ids, how results are told.

use std::future::Future;
use std::sync::Arc;

use clap::Args;
use flowfabric::{Error, Execution, ExecutionId, Fabric, Operation};
use serde_json::{Value, json};

use crate::parse;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Who does it, and why; both are kept with the event.
#[derive(Args, Debug, Clone)]
pub struct By {
    /// Why; kept with the event
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub cause: String,
    #[command(flatten)]
    pub who: Who,
}

/// Who does it, where no cause is kept.
#[derive(Args, Debug, Clone)]
pub struct Who {
    /// Who does it; kept with the event [default: the user's name]
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
}

impl Who {
    pub fn name(&self) -> String {
        let user = || std::env::var("USER").ok().filter(|name| !name.is_empty());
        self.actor.clone().or_else(user).unwrap_or_else(|| "cli".to_owned())
    }
}

impl By {
    pub fn actor(&self) -> String {
        self.who.name()
    }

    pub fn apply<T>(&self, operation: Operation<T>) -> Operation<T> {
        operation.actor(&self.actor()).cause(&self.cause)
    }
}

#[derive(Args, Debug, Clone)]
pub struct Ids {
    /// The executions
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<ExecutionId>,
}

/// Does something to each execution and tells what became of them. All are tried; the first that went wrong
/// decides the exit code.
pub async fn each<T, F>(
    settings: &Settings,
    ids: &[ExecutionId],
    act: impl Fn(Fabric, ExecutionId) -> F,
    tell: impl Fn(ExecutionId, &T) -> (Value, String),
) -> Result<(), Problem>
where
    F: Future<Output = Result<T, Error>>,
{
    session::with(settings, Open::Existing, Patience::Short, async |fabric| {
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            results.push((*id, act(fabric.clone(), *id).await.map_err(Problem::from)));
        }
        report(settings.json, results, tell)
    })
    .await
}

fn report<T>(
    json: bool,
    mut results: Vec<(ExecutionId, Result<T, Problem>)>,
    tell: impl Fn(ExecutionId, &T) -> (Value, String),
) -> Result<(), Problem> {
    if results.len() == 1 {
        let (id, result) = results.remove(0);
        let (value, text) = tell(id, &result?);
        return if json { view::document(&value) } else { view::line(&text) };
    }
    let mut values = Vec::with_capacity(results.len());
    let mut exit = None;
    for (id, result) in results {
        match result {
            Ok(done) => {
                let (value, text) = tell(id, &done);
                values.push(value);
                if !json {
                    view::line(&text)?;
                }
            }
            Err(problem) => {
                exit = exit.or(Some(problem.exit));
                values.push(json!({ "id": id, "error": problem.document() }));
                if !json {
                    problem.report(false);
                }
            }
        }
    }
    if json {
        view::document(&json!({ "results": values }))?;
    }
    exit.map_or(Ok(()), |exit| Err(Problem::told(exit)))
}

/// Tells of an execution that was changed.
pub fn changed(id: ExecutionId, execution: &Arc<Execution>) -> (Value, String) {
    let detail = view::detail(execution, parse::now());
    let text = format!("{id}  {} ({})  {detail}", execution.public_state(), execution.reason());
    (view::execution_value(execution), text.trim_end().to_owned())
}
