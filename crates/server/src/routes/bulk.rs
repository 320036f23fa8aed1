//! Bulk operations: the same done to many executions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::bulk::{BulkDoc, BulkPreviewDoc, BulkRequest, BulksDoc, Chosen};
use ff_api::fields::Why;
use ff_core::registry::{BulkOperation, BulkVerb};
use ff_engine::bulk::{NewBulk, Which};

use super::executions::Waiting;
use super::wait;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path, Query};

/// Whether an operation is there for a caller: one that reaches further than the caller does is not.
fn is_seen(caller: &Caller, bulk: &BulkOperation) -> bool {
    let inside = !bulk.namespaces.is_empty() && bulk.namespaces.iter().all(|it| caller.sees(it));
    caller.sees_all() || inside
}

async fn find(app: &Shared, caller: &Caller, id: &str) -> Result<Arc<BulkOperation>, Refusal> {
    let found = app.engine.bulk(id).await?.filter(|it| is_seen(caller, it));
    Ok(found.ok_or_else(|| not_found("bulk operation", id.to_owned()))?)
}

async fn start(app: Shared, caller: Caller, verb: BulkVerb, it: BulkRequest) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    let action = it.action(verb)?;
    let (which, namespaces) = match it.chosen()? {
        Chosen::Ids(ids) => (Which::Ids(ids), caller.namespaces().to_vec()),
        Chosen::Filter(mut filter) => {
            filter.namespace = caller.narrow(filter.namespace.take())?;
            let namespaces = filter.namespace.iter().cloned().collect();
            (Which::Filter(filter), namespaces)
        }
    };
    let id: Option<Box<str>> = it.id.map(Into::into);
    if let Some(id) = &id
        && let Some(known) = app.engine.bulk(id).await?
        && !is_seen(&caller, &known)
    {
        let what = "bulk operation".into();
        return Err(ff_api::Problem::from(&ff_core::Rejection::IdUsed { what, id: id.clone() }).into());
    }
    let new = NewBulk {
        id,
        action,
        which,
        rate: it.rate,
        namespaces,
        actor: caller.actor(it.actor.as_deref()).into(),
        cause: it.cause.unwrap_or_default().into(),
    };
    if it.dry_run {
        let preview = app.engine.preview_bulk(new).await?;
        let (seen, done, more, first) = (preview.seen, preview.done, preview.more, preview.first);
        return Ok(
            Wants::Documents.answer(|| BulkPreviewDoc { dry_run: true, seen, done, more, first }, || ())
        );
    }
    let bulk = app.engine.start_bulk(new).await?;
    Ok(Wants::Documents.answer_with(StatusCode::ACCEPTED, || BulkDoc::from(&*bulk), || ()))
}

/// Routes that begin an operation.
macro_rules! beginnings {
    ($($(#[$doc:meta])* $name:ident $path:literal $verb:ident;)+) => { $(
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, tag = "bulk", request_body = BulkRequest,
            responses((status = 202, description = "It is being done", body = BulkDoc),
                      (status = 200, description = "What would be done", body = BulkPreviewDoc), Problems)
        )]
        pub async fn $name(
            State(app): State<Shared>,
            caller: Caller,
            Body(it): Body<BulkRequest>,
        ) -> Result<Response, Refusal> {
            start(app, caller, BulkVerb::$verb, it).await
        }
    )+ };
}

beginnings! {
    /// Cancel many executions.
    cancel "/v1/bulk/cancel" Cancel;
    /// Run many executions that have ended once more.
    replay "/v1/bulk/replay" Replay;
    /// Change the priority of many executions.
    priority "/v1/bulk/priority" Priority;
}

/// List bulk operations: those that run, and the last hundred that have ended.
#[utoipa::path(
    get, path = "/v1/bulk", tag = "bulk",
    responses((status = 200, description = "The operations", body = BulksDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let bulks = app.engine.bulks().await?;
    let seen = bulks.iter().filter(|it| is_seen(&caller, it)).map(|it| BulkDoc::from(&**it));
    let bulks = seen.collect();
    Ok(Wants::Documents.answer(|| BulksDoc { bulks }, || ()))
}

/// Get a bulk operation and how far it has come, or wait for its end.
#[utoipa::path(
    get, path = "/v1/bulk/{id}", tag = "bulk", params(("id" = String, Path), Waiting),
    responses((status = 200, description = "The operation", body = BulkDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Query(waiting): Query<Waiting>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let patience = wait(&app, waiting.wait.as_deref())?;
    let mut bulk = find(&app, &caller, &id).await?;
    if bulk.is_running() && !patience.is_zero() {
        let ended = app.wait_for(patience, app.engine.wait_bulk(&id)).await.transpose()?;
        bulk = match ended {
            Some(ended) => ended,
            None => find(&app, &caller, &id).await?,
        };
    }
    Ok(Wants::Documents.answer(|| BulkDoc::from(&*bulk), || ()))
}

/// Stop a bulk operation; what it has done stays done.
#[utoipa::path(
    post, path = "/v1/bulk/{id}/stop", tag = "bulk", params(("id" = String, Path)), request_body = Why,
    responses((status = 200, description = "The operation", body = BulkDoc), Problems)
)]
pub async fn stop(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    find(&app, &caller, &id).await?;
    let actor = caller.actor(why.actor.as_deref());
    let bulk = app.engine.stop_bulk(&id, &actor, why.cause.as_deref().unwrap_or_default()).await?;
    Ok(Wants::Documents.answer(|| BulkDoc::from(&*bulk), || ()))
}
