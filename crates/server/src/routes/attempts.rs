//! What was tried, what was recorded, and why something does not run.

use axum::extract::State;
use axum::response::Response;
use ff_api::execution::{AttemptDoc, AttemptsDoc, ExplanationDoc, GateDoc};
use ff_api::mail::{RecordedStep, StepsDoc};
use ff_api::record;
use ff_core::{ExecutionId, Payload};
use ff_engine::StepPage;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{PAGE_MAX, page_limit};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Path, Query};

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

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Recorded {
    /// Those after so many.
    pub after: Option<u32>,
    /// How many at most, 10,000 if absent; a page of large results has fewer.
    pub limit: Option<u32>,
}

/// List the recorded steps of an execution.
#[utoipa::path(
    get, path = "/v1/executions/{id}/steps", tag = "executions", params(("id" = uuid::Uuid, Path), Recorded),
    responses((status = 200, description = "A page, in the order of recording", body = StepsDoc), Problems)
)]
pub async fn steps(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Query(it): Query<Recorded>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    let limit = page_limit(it.limit.or(Some(PAGE_MAX)))?;
    let StepPage { mut steps, next } = app.engine.steps(id, it.after.unwrap_or(0) as usize, limit).await?;
    if !caller.sees_payloads() {
        steps.iter_mut().for_each(|step| step.result = hidden());
    }
    Ok(wants.answer(
        || StepsDoc { steps: steps.iter().map(RecordedStep::from).collect(), next_after: next },
        || record::Steps { steps: steps.clone(), next_after: next },
    ))
}

/// What stands in the place of a payload that the caller may not see.
pub fn hidden() -> Payload {
    Payload::json("null")
}
