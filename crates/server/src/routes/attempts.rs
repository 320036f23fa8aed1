//! What was tried, what was recorded, and why something does not run.

use axum::extract::State;
use axum::response::Response;
use ff_api::execution::{AttemptDoc, AttemptsDoc, ExplanationDoc, GateDoc};
use ff_api::mail::{RecordedStep, StepsDoc};
use ff_api::record;
use ff_core::{ExecutionId, Payload};

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::Path;

/// List all attempts at an execution, oldest first.
#[utoipa::path(
    get, path = "/v1/executions/{id}/attempts", tag = "executions", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The attempts", body = AttemptsDoc), Problems)
)]
pub async fn attempts(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    let attempts = app.engine.attempts(id).await?;
    Ok(wants.answer(
        || AttemptsDoc { attempts: attempts.iter().map(AttemptDoc::from).collect() },
        || record::Attempts { attempts: attempts.clone() },
    ))
}

/// Explain why an execution does or does not run.
#[utoipa::path(
    get, path = "/v1/executions/{id}/explain", tag = "executions", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "Every gate it stands before", body = ExplanationDoc), Problems)
)]
pub async fn explain(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    let why = app.engine.explain(id).await?;
    let gate = |it: &ff_engine::explain::Gate| GateDoc {
        gate: it.gate.to_string(),
        blocking: it.blocking,
        detail: it.detail.clone(),
    };
    Ok(wants.answer(
        || ExplanationDoc {
            state: why.state.to_string(),
            reason: why.reason.clone(),
            gates: why.gates.iter().map(gate).collect(),
        },
        || why.clone(),
    ))
}

/// List the recorded steps of an execution.
#[utoipa::path(
    get, path = "/v1/executions/{id}/steps", tag = "executions", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The steps, in the order of recording", body = StepsDoc), Problems)
)]
pub async fn steps(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    let mut steps = app.engine.steps(id).await?;
    if !caller.sees_payloads() {
        steps.iter_mut().for_each(|step| step.result = hidden());
    }
    Ok(wants.answer(
        || StepsDoc { steps: steps.iter().map(RecordedStep::from).collect() },
        || record::Steps { steps: steps.clone() },
    ))
}

/// What stands in the place of a payload that the caller may not see.
pub fn hidden() -> Payload {
    Payload::json("null")
}
