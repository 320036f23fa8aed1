//! The keys that waitpoint tokens are signed with. Their secrets never leave the server.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::mail::{KeyDoc, KeysDoc, Rotation};
use ff_api::record::{KeyRecord, Keys};
use ff_core::suspension::SigningKey;

use crate::access::Caller;
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::Body;

/// How long older tokens stay good unless the caller says otherwise.
const GRACE_MS: i64 = 24 * 3_600_000;

fn record(key: &SigningKey) -> KeyRecord {
    KeyRecord { id: key.id, created_at: key.created_at, retires_at: key.retires_at }
}

/// List the signing keys.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys",
    responses((status = 200, description = "The keys, without their secrets", body = KeysDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller, wants: Wants) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let keys = app.engine.signing_keys().await?;
    Ok(wants.answer(
        || KeysDoc { keys: keys.iter().map(|it| KeyDoc::from(&**it)).collect() },
        || Keys { keys: keys.iter().map(|it| record(it)).collect() },
    ))
}

/// Make a new signing key; tokens of older ones stay good for a while.
#[utoipa::path(
    post, path = "/v1/keys/rotate", tag = "keys", request_body = Rotation,
    responses((status = 201, description = "The new key, without its secret", body = KeyDoc), Problems)
)]
pub async fn rotate(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(it): Body<Rotation>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let grace = it.grace_ms.map_or(GRACE_MS, |it| it.0);
    let actor = caller.actor(it.actor.as_deref());
    let key = app.engine.rotate_key(grace, &actor, it.cause.as_deref().unwrap_or_default()).await?;
    Ok(wants.answer_with(StatusCode::CREATED, || KeyDoc::from(&*key), || record(&key)))
}
