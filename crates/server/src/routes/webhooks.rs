//! Webhooks: where events are delivered.

use axum::extract::State;
use axum::response::Response;
use ff_api::fields::Why;
use ff_api::webhook::{WebhookDoc, WebhookRequest, WebhookSet, WebhooksDoc};
use ff_engine::registry::NewSecret;

use super::reading::Done;
use crate::access::Caller;
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path};

/// List all webhooks, without their secrets.
#[utoipa::path(
    get, path = "/v1/webhooks", tag = "webhooks",
    responses((status = 200, description = "The webhooks", body = WebhooksDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let webhooks = app.engine.webhooks().await?;
    let webhooks = WebhooksDoc { webhooks: webhooks.iter().map(|it| WebhookDoc::from(&**it)).collect() };
    Ok(Wants::Documents.answer(|| webhooks, || ()))
}

/// Get a webhook with its last deliveries.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, description = "The webhook", body = WebhookDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let webhook = app.engine.webhook(&id).await?.ok_or_else(|| not_found("webhook", id))?;
    Ok(Wants::Documents.answer(|| WebhookDoc::from(&*webhook), || ()))
}

/// Make a webhook, or change it. A new secret is in the answer and nowhere else.
#[utoipa::path(
    put, path = "/v1/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), request_body = WebhookRequest,
    responses((status = 200, description = "The webhook", body = WebhookSet), Problems)
)]
pub async fn set(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(it): Body<WebhookRequest>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let actor = caller.actor(it.actor.as_deref());
    let secret = if it.new_secret { NewSecret::Always } else { NewSecret::IfNew };
    let (webhook, secret) = app.engine.put_webhook(it.command(&id, &actor)?, secret).await?;
    let answer = WebhookSet { webhook: WebhookDoc::from(&*webhook), secret: secret.map(String::from) };
    Ok(Wants::Documents.answer(|| answer, || ()))
}

/// Remove a webhook.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), request_body = Why,
    responses((status = 200, description = "Removed", body = Done), Problems)
)]
pub async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let actor = caller.actor(why.actor.as_deref());
    app.engine.remove_webhook(&id, &actor, why.cause.as_deref().unwrap_or_default()).await?;
    Ok(Wants::Documents.answer(|| Done { done: true }, || ()))
}
