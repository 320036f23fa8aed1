//! Handing in work.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ff_api::Problem;
use ff_api::submit::{Submission, Submissions, Submitted};
use ff_core::commands::Create;
use ff_core::{Command, Reply};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::batch::{self, Outcomes};
use super::take_key;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::Shared;
use crate::body::{Text, parse};

/// Submit one execution, or many at once: each of many is answered for itself, in order.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", request_body = OneOrMany,
    params(("Idempotency-Key" = Option<String>, Header,
            description = "Of one execution, instead of `idempotency_key` in the body")),
    responses((status = 201, description = "One was created", body = Submitted),
              (status = 200, description = "It was there before; or the outcomes of many", body = Answered), Problems)
)]
pub async fn submit(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Text(text): Text,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    match OneOrMany::parse(&text)? {
        OneOrMany::One(submission) => one(&app, &caller, wants, &headers, *submission).await,
        OneOrMany::Many(many) => submit_many(&app, &caller, wants, &headers, many).await,
    }
}

/// What is handed in: one execution, or `{"executions": […]}`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SubmissionOrMany)]
#[serde(untagged)]
pub enum OneOrMany {
    One(Box<Submission>),
    Many(Submissions),
}

impl OneOrMany {
    /// Most are one, so that is tried first.
    fn parse(text: &[u8]) -> Result<OneOrMany, Refusal> {
        #[derive(Deserialize)]
        struct Many {
            #[serde(rename = "executions")]
            _executions: IgnoredAny,
        }
        match serde_json::from_slice(text) {
            Ok(one) => Ok(OneOrMany::One(Box::new(one))),
            Err(_) if serde_json::from_slice::<Many>(text).is_ok() => Ok(OneOrMany::Many(parse(text)?)),
            Err(_) => Ok(OneOrMany::One(Box::new(parse(text)?))),
        }
    }
}

/// What is answered: one execution, or the outcomes of many.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SubmittedOrMany)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum Answered {
    One(Submitted),
    Many(Outcomes),
}

async fn one(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    headers: &HeaderMap,
    mut submission: Submission,
) -> Result<Response, Refusal> {
    take_key(headers, "idempotency_key", &mut submission.idempotency_key)?;
    let create = command(app, caller, submission)?;
    match app.run(create).await? {
        Reply::Created { execution, existing } => {
            let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
            let document = || Submitted { id: execution, existing };
            Ok(wants.answer_with(status, document, || Reply::Created { execution, existing }))
        }
        reply => Err(odd_reply(&reply).into()),
    }
}

async fn submit_many(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    headers: &HeaderMap,
    batch: Submissions,
) -> Result<Response, Refusal> {
    if headers.contains_key("idempotency-key") {
        let problem = "is for one execution; give each of these an idempotency_key of its own";
        return Err(Problem::invalid("Idempotency-Key", problem).into());
    }
    batch::check(app, "executions", batch.executions.len())?;
    let commands = batch
        .executions
        .into_iter()
        .map(|submission| command(app, caller, submission).map(Command::from).map_err(|refusal| refusal.0));
    let outcomes = batch::run(app, commands.collect()).await;
    Ok(batch::answer(wants, outcomes))
}

/// The command for a submission, under a new id unless the caller has made one.
fn command(app: &Shared, caller: &Caller, submission: Submission) -> Result<Create, Refusal> {
    let now = app.now();
    let create = submission
        .create(app.engine.limits(), |namespace, key| app.engine.new_execution_id(now, namespace, key))?;
    caller.may_in(&create.namespace)?;
    Ok(create)
}
