//! Webhooks: where events are delivered.

use axum::extract::State;
use axum::response::Response;
use ff_api::fields::{Why, word};
use ff_api::webhook::{WebhookDoc, WebhookRequest, WebhookSet, WebhooksDoc};
use ff_core::commands::SetWebhook;
use ff_core::event::Family;
use ff_core::name::{LaneName, Namespace};
use ff_core::suspension::token::Secret;
use ff_engine::Failure;

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
    let is_new = app.engine.webhook(&id).await?.is_none();
    let secret = if is_new || it.new_secret { Some(new_secret()?) } else { None };
    let families = it.families.iter().map(|it| word("families", it, Family::ALL, Family::word));
    let command = SetWebhook {
        id: id.into(),
        url: it.url.into(),
        secret,
        families: families.collect::<Result<_, _>>()?,
        namespace: it.namespace.as_deref().map(Namespace::parse).transpose()?,
        lane: it.lane.as_deref().map(LaneName::parse).transpose()?,
        facts: it.facts.into_iter().map(Into::into).collect(),
        paused: it.paused,
        begin: it.begin.map(Into::into),
        actor: caller.actor(it.actor.as_deref()).into(),
        cause: it.cause.unwrap_or_default().into(),
    };
    let webhook = app.engine.set_webhook(command).await?;
    let answer = WebhookSet { webhook: WebhookDoc::from(&*webhook), secret: secret.map(String::from) };
    Ok(Wants::Documents.answer(|| answer, || ()))
}

fn new_secret() -> Result<Secret, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Internal(format!("the system gives no random bytes: {error}")))?;
    Ok(Secret(bytes))
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
