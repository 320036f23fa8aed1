//! Changing flows.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::execution::Tagging;
use ff_api::flow::{
    Drawing, FlowCancelledDoc, FlowCancelling, FlowChanged, NodesRequest, PolicyRequest, PolicySetDoc,
    Sealing,
};
use ff_core::commands::{Seal, SetGroupPolicy, TagFlow};
use ff_core::{ExecutionId, FlowId, Reply};
use std::collections::BTreeMap;

use super::executions::Waiting;
use super::flows::{changed, names, namespace_of, waited_for};
use super::reading::document;
use super::wait;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Body, Path, Query};

/// Add nodes and edges to a flow.
#[utoipa::path(
    post, path = "/v1/flows/{id}/nodes", tag = "flows", request_body = NodesRequest,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The flow", body = FlowChanged), Problems)
)]
pub async fn nodes(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Body(request): Body<NodesRequest>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    let namespace = namespace_of(&app, &caller, id).await?;
    let actor = caller.actor(request.actor.as_deref());
    let command = request.command(&Drawing { making: &*app, flow: id, namespace, fresh: true }, &actor)?;
    let nodes = names(&command.nodes);
    let reply = app.run(command).await?;
    changed(wants, StatusCode::OK, reply, nodes)
}

/// Add edges to a flow.
#[utoipa::path(
    post, path = "/v1/flows/{id}/edges", tag = "flows", request_body = NodesRequest,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The flow", body = FlowChanged), Problems)
)]
pub async fn add_edges(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Body(request): Body<NodesRequest>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    let namespace = namespace_of(&app, &caller, id).await?;
    let actor = caller.actor(request.actor.as_deref());
    let command =
        request.edges_command(&Drawing { making: &*app, flow: id, namespace, fresh: true }, &actor)?;
    let reply = app.run(command).await?;
    changed(wants, StatusCode::OK, reply, BTreeMap::new())
}

/// Seal a flow or one of its nodes: nothing is added any more.
#[utoipa::path(
    post, path = "/v1/flows/{id}/seal", tag = "flows", request_body = Sealing,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The flow", body = FlowChanged), Problems)
)]
pub async fn seal(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Body(it): Body<Sealing>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    app.check_flow(&caller, id).await?;
    let command = Seal {
        flow: id,
        node: it.node,
        expected_revision: it.expected_revision,
        actor: caller.actor(it.actor.as_deref()).into(),
        cause: it.cause.unwrap_or_default().into(),
    };
    let reply = app.run(command).await?;
    changed(wants, StatusCode::OK, reply, BTreeMap::new())
}

/// Say how many of its upstreams a node needs.
#[utoipa::path(
    put, path = "/v1/flows/{id}/nodes/{node}/policy", tag = "flows", request_body = PolicyRequest,
    params(("id" = uuid::Uuid, Path), ("node" = uuid::Uuid, Path)),
    responses((status = 200, description = "Whether it was so before", body = PolicySetDoc), Problems)
)]
pub async fn policy(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path((id, node)): Path<(FlowId, ExecutionId)>,
    Body(it): Body<PolicyRequest>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    app.check_flow(&caller, id).await?;
    let command = SetGroupPolicy {
        flow: id,
        node,
        join: it.join.join()?,
        expected_revision: it.expected_revision,
        actor: caller.actor(it.actor.as_deref()).into(),
        cause: it.cause.unwrap_or_default().into(),
    };
    let reply = app.run(command).await?;
    Ok(wants.reply(&reply, document))
}

/// Cancel a flow, and wait for the end of its last member if that is asked for.
#[utoipa::path(
    post, path = "/v1/flows/{id}/cancel", tag = "flows", request_body = FlowCancelling,
    params(("id" = uuid::Uuid, Path), Waiting),
    responses((status = 200, description = "The flow and some of its members", body = FlowCancelledDoc), Problems)
)]
pub async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Query(waiting): Query<Waiting>,
    Body(it): Body<FlowCancelling>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    wait(&app, waiting.wait.as_deref())?;
    app.check_flow(&caller, id).await?;
    let actor = caller.actor(it.actor.as_deref());
    let mut reply = app.run(it.command(id, &actor)?).await?;
    if let Reply::FlowCancelled { flow, .. } = &mut reply {
        *flow = waited_for(&app, &caller, id, &waiting).await?;
    }
    Ok(wants.reply(&reply, document))
}

/// Set and remove tags of a flow.
#[utoipa::path(
    post, path = "/v1/flows/{id}/tags", tag = "flows", request_body = Tagging,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The flow", body = FlowChanged), Problems)
)]
pub async fn tags(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Body(it): Body<Tagging>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    app.check_flow(&caller, id).await?;
    let actor = caller.actor(it.actor.as_deref()).into();
    let cause = it.cause.clone().unwrap_or_default().into();
    let (set, remove) = it.parts();
    let reply = app.run(TagFlow { flow: id, set, remove, actor, cause }).await?;
    changed(wants, StatusCode::OK, reply, BTreeMap::new())
}
