//! Many commands in one request: each is answered for itself, in order.

use axum::response::Response;
use ff_api::record::{Outcome, Outcomes as Records};
use ff_api::submit::Submitted;
use ff_api::{Json, Problem};
use ff_core::{Command, Reply};
use serde::Serialize;

use super::reading::{Appended, Noted, TaskEnded};
use crate::answer::{Refusal, Wants};
use crate::app::{Shared, problem};

/// What became of the items of a batch, in order.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Outcomes {
    pub outcomes: Vec<Item>,
}

/// What became of one item: an answer, or a problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Item {
    /// What the same request alone would have been answered.
    #[schema(value_type = Option<ItemAnswer>)]
    pub answer: Option<Json>,
    pub problem: Option<Problem>,
}

/// The answer to one item; which of them it is follows from the route.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum ItemAnswer {
    Submitted(Submitted),
    Ended(TaskEnded),
    Noted(Noted),
    Appended(Appended),
}

/// Checks that a batch is not too long.
pub fn check(app: &Shared, field: &str, count: usize) -> Result<(), Refusal> {
    let max = app.engine.limits().batch_items_max;
    if count <= max {
        return Ok(());
    }
    let told = format!("are {count} in number; allowed are at most {max} at once");
    Err(Problem::invalid(field, told).into())
}

/// Carries out those that could be read.
pub async fn run(app: &Shared, commands: Vec<Result<Command, Problem>>) -> Vec<Result<Reply, Problem>> {
    let mut results = Vec::with_capacity(commands.len());
    let mut sent = Vec::with_capacity(commands.len());
    for command in commands {
        match command {
            Ok(command) => {
                sent.push(command);
                results.push(None);
            }
            Err(problem) => results.push(Some(Err(problem))),
        }
    }
    let mut replies = app.engine.execute_all(sent).await.into_iter();
    let unanswered = || Problem::new(500, "internal", "Internal error", "there is no answer");
    results
        .into_iter()
        .map(|result| match result {
            Some(result) => result,
            None => replies.next().map_or_else(|| Err(unanswered()), |reply| reply.map_err(problem)),
        })
        .collect()
}

pub fn answer(wants: Wants, outcomes: Vec<Result<Reply, Problem>>) -> Response {
    match wants {
        Wants::Documents => {
            let item = |outcome: Result<Reply, Problem>| match outcome {
                Ok(reply) => Item { answer: super::reading::document(&reply), problem: None },
                Err(problem) => Item { answer: None, problem: Some(problem) },
            };
            let outcomes = Outcomes { outcomes: outcomes.into_iter().map(item).collect() };
            wants.answer(|| outcomes, || ())
        }
        Wants::Records => {
            let record = |outcome| match outcome {
                Ok(reply) => Outcome::Done(reply),
                Err(problem) => Outcome::Refused(problem),
            };
            let outcomes = Records { outcomes: outcomes.into_iter().map(record).collect() };
            wants.answer(|| (), || outcomes)
        }
    }
}
