//! Handing in work.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ff_api::submit::{Submission, Submissions, Submitted};
use ff_core::commands::Create;
use ff_core::{Command, Reply};

use super::batch::{self, Outcomes};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::Shared;
use crate::body::Body;

/// Submit one execution.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", request_body = Submission,
    params(("Idempotency-Key" = Option<String>, Header, description = "Instead of `idempotency_key` in the body")),
    responses((status = 201, description = "Created", body = Submitted),
              (status = 200, description = "It was there before", body = Submitted), Problems)
)]
pub async fn submit(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Body(mut submission): Body<Submission>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    if let Some(key) = headers.get("idempotency-key") {
        let key = key.to_str().map_err(|_| ff_api::Problem::invalid("Idempotency-Key", "is not plain text"))?;
        if submission.idempotency_key.as_deref().is_some_and(|it| it != key) {
            let problem = "differs from idempotency_key in the body; give one of them";
            return Err(ff_api::Problem::invalid("Idempotency-Key", problem).into());
        }
        submission.idempotency_key = Some(key.to_owned());
    }
    let create = command(&app, &caller, submission)?;
    match app.run(create).await? {
        Reply::Created { execution, existing } => {
            let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
            let document = || Submitted { id: execution, existing };
            Ok(wants.answer_with(status, document, || Reply::Created { execution, existing }))
        }
        reply => Err(odd_reply(&reply).into()),
    }
}

/// Submit many executions at once; each is answered for itself, in order.
#[utoipa::path(
    post, path = "/v1/executions/batch", tag = "executions", request_body = Submissions,
    responses((status = 200, description = "One outcome each, in order", body = Outcomes), Problems)
)]
pub async fn submit_batch(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(batch): Body<Submissions>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    batch::check(&app, "executions", batch.executions.len())?;
    let commands = batch.executions.into_iter().map(|submission| {
        command(&app, &caller, submission).map(Command::from).map_err(|refusal| refusal.0)
    });
    let outcomes = batch::run(&app, commands.collect()).await;
    Ok(batch::answer(wants, outcomes))
}

/// The command for a submission, under a new id unless the caller has made one.
fn command(app: &Shared, caller: &Caller, submission: Submission) -> Result<Create, Refusal> {
    let now = app.now();
    let create = submission.create(app.engine.limits(), |namespace, key| {
        app.engine.new_execution_id(now, namespace, key)
    })?;
    caller.may_in(&create.namespace)?;
    Ok(create)
}
