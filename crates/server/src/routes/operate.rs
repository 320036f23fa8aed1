//! What operators do with one execution.

use axum::extract::State;
use axum::response::Response;
use ff_api::execution::{CancelledDoc, Cancelling, ExecutionDoc, Prioritising, Tagging};
use ff_api::fields::Why;
use ff_core::commands::{Hold, Remove, Replay, Resume, Revoke, Unhold};
use ff_core::{Command, ExecutionId};

use super::reading::{Done, document};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Body, Path};

/// Checks the caller, then carries it out.
async fn carry_out(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    id: ExecutionId,
    command: impl Into<Command>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    app.check_execution(caller, id).await?;
    let reply = app.run(command).await?;
    Ok(wants.reply(&reply, document))
}

/// Cancel an execution.
#[utoipa::path(
    post, path = "/v1/executions/{id}/cancel", tag = "operating", request_body = Cancelling,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "It is cancelled, or its worker is asked to end", body = CancelledDoc), Problems)
)]
pub async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Body(it): Body<Cancelling>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(it.actor.as_deref());
    carry_out(&app, &caller, wants, id, it.command(id, &actor)).await
}

/// Change the priority of an execution.
#[utoipa::path(
    post, path = "/v1/executions/{id}/priority", tag = "operating", request_body = Prioritising,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The execution", body = ExecutionDoc), Problems)
)]
pub async fn priority(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Body(it): Body<Prioritising>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(it.actor.as_deref());
    carry_out(&app, &caller, wants, id, it.command(id, &actor)).await
}

/// Set and remove tags of an execution.
#[utoipa::path(
    post, path = "/v1/executions/{id}/tags", tag = "operating", request_body = Tagging,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The execution", body = ExecutionDoc), Problems)
)]
pub async fn tags(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Body(it): Body<Tagging>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(it.actor.as_deref());
    carry_out(&app, &caller, wants, id, it.command(id, &actor)).await
}

/// Run an execution that has ended once more.
#[utoipa::path(
    post, path = "/v1/executions/{id}/replay", tag = "operating", request_body = Why,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "Done", body = ExecutionDoc), Problems)
)]
pub async fn replay(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(why.actor.as_deref()).into();
    let cause = why.cause.unwrap_or_default().into();
    carry_out(&app, &caller, wants, id, Replay { execution: id, actor, cause, ended_by: None }).await
}

/// Routes that need nothing but who wants it and why.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $verb:ident $path:literal $command:ident $body:ty;)+) => { $(
        $(#[$doc])*
        #[utoipa::path(
            $verb, path = $path, tag = "operating", request_body = Why, params(("id" = uuid::Uuid, Path)),
            responses((status = 200, description = "Done", body = $body), Problems)
        )]
        pub async fn $name(
            State(app): State<Shared>,
            caller: Caller,
            wants: Wants,
            Path(id): Path<ExecutionId>,
            Body(why): Body<Why>,
        ) -> Result<Response, Refusal> {
            let actor = caller.actor(why.actor.as_deref()).into();
            let cause = why.cause.unwrap_or_default().into();
            carry_out(&app, &caller, wants, id, $command { execution: id, actor, cause }).await
        }
    )+ };
}

operations! {
    /// Hold an execution: it does not run until it is released.
    hold post "/v1/executions/{id}/hold" Hold ExecutionDoc;
    /// Release an execution that is held.
    release post "/v1/executions/{id}/release" Unhold ExecutionDoc;
    /// Take the lease of a running execution away.
    revoke post "/v1/executions/{id}/revoke" Revoke ExecutionDoc;
    /// Resume a suspended execution.
    resume post "/v1/executions/{id}/resume" Resume ExecutionDoc;
    /// Remove an execution that has ended, with every trace of it.
    remove delete "/v1/executions/{id}" Remove Done;
}
