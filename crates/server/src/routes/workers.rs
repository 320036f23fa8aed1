//! Workers: coming, going, and who is there.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::fields::Why;
use ff_api::record;
use ff_api::worker::{Registered, Registration, WorkerDoc, WorkersDoc};
use ff_core::commands::{BuryWorker, DrainWorker};
use ff_core::{Command, InstanceId, Reply};

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path};

/// Register a worker process.
#[utoipa::path(
    post, path = "/v1/workers", tag = "workers", request_body = Registration,
    responses((status = 201, description = "Registered", body = Registered), Problems)
)]
pub async fn register(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(it): Body<Registration>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    let mut command = it.command(|| app.engine.new_instance_id(app.now()))?;
    command.owner = caller.owner().map(Into::into);
    app.check_worker(&caller, command.instance).await?;
    let (id, ttl_ms) = (command.instance, command.ttl_ms);
    let reply = app.run(command).await?;
    // A process that begins again under the same id numbers its claims anew: none of them confirms an older one.
    app.claims.forget(id);
    answer(wants, StatusCode::CREATED, id, ttl_ms, &reply)
}

fn answer(
    wants: Wants,
    status: StatusCode,
    id: InstanceId,
    ttl_ms: i64,
    reply: &Reply,
) -> Result<Response, Refusal> {
    let Reply::Worker { mode, .. } = reply else { return Err(odd_reply(reply).into()) };
    let document = || Registered { id, mode: mode.word().to_owned(), heartbeat_ms: ttl_ms / 3 };
    Ok(wants.answer_with(status, document, || reply.clone()))
}

/// List all worker instances; with a token that is limited to namespaces those that were registered with it.
#[utoipa::path(
    get, path = "/v1/workers", tag = "workers",
    responses((status = 200, description = "The instances", body = WorkersDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller, wants: Wants) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let (_, mut workers) = app.engine.lanes_and_workers().await?;
    workers.retain(|it| caller.sees_all() || it.owner.as_deref() == caller.owner());
    Ok(wants.answer(
        || WorkersDoc { workers: workers.iter().map(|it| WorkerDoc::from(&**it)).collect() },
        || record::Workers { workers: workers.clone() },
    ))
}

/// Get a worker instance.
#[utoipa::path(
    get, path = "/v1/workers/{id}", tag = "workers", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The instance", body = WorkerDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<InstanceId>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_worker(&caller, id).await?;
    let found = app.engine.worker(id).await?;
    let worker = found.ok_or_else(|| not_found("worker", id.to_string()))?;
    Ok(wants.answer(|| WorkerDoc::from(&*worker), || record::Workers { workers: vec![worker.clone()] }))
}

/// Drain a worker: it keeps its tasks and gets no more.
#[utoipa::path(
    post, path = "/v1/workers/{id}/drain", tag = "workers", request_body = Why,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "Draining", body = Registered), Problems)
)]
pub async fn drain(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<InstanceId>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may(May::Work).or_else(|_| caller.may(May::Operate))?;
    app.check_worker(&caller, id).await?;
    let actor = caller.actor(why.actor.as_deref()).into();
    let cause = why.cause.unwrap_or_default().into();
    leaving(&app, wants, id, DrainWorker { instance: id, actor, cause }.into()).await
}

/// Take a worker away: its tasks go to others at once.
#[utoipa::path(
    delete, path = "/v1/workers/{id}", tag = "workers", request_body = Why,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "Gone", body = Registered), Problems)
)]
pub async fn leave(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<InstanceId>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may(May::Work).or_else(|_| caller.may(May::Operate))?;
    app.check_worker(&caller, id).await?;
    let actor = caller.actor(why.actor.as_deref()).into();
    let cause = why.cause.unwrap_or_default().into();
    let answer = leaving(&app, wants, id, BuryWorker { instance: id, actor, cause }.into()).await;
    app.claims.forget(id);
    answer
}

async fn leaving(app: &Shared, wants: Wants, id: InstanceId, command: Command) -> Result<Response, Refusal> {
    let reply = app.run(command).await?;
    answer(wants, StatusCode::OK, id, ff_api::worker::TTL_MS, &reply)
}
