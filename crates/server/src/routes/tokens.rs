//! Access tokens.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::access::{TokenDoc, TokenMade, TokenRequest, TokensDoc};
use ff_api::fields::{Why, word};
use ff_core::name::Namespace;
use ff_core::registry::Role;
use ff_engine::registry::NewToken;

use crate::access::Caller;
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path};

/// Make a token. Its secret is in the answer and nowhere else.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = TokenRequest,
    responses((status = 201, description = "The token with its secret", body = TokenMade), Problems)
)]
pub async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Body(it): Body<TokenRequest>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let namespaces: Result<Vec<Namespace>, _> = it.namespaces.iter().map(|it| Namespace::parse(it)).collect();
    let new = NewToken {
        name: it.name.into(),
        role: word("role", &it.role, Role::ALL, Role::word)?,
        namespaces: namespaces?,
        see_payloads: it.see_payloads,
        expires_in_ms: it.expires_in_ms.map(|it| it.0),
        actor: caller.actor(it.actor.as_deref()).into(),
        cause: it.cause.unwrap_or_default().into(),
    };
    let (token, secret) = app.engine.create_token(new).await?;
    let made = TokenMade { token: TokenDoc::from(&*token), secret: secret.reveal().to_owned() };
    Ok(Wants::Documents.answer_with(StatusCode::CREATED, || made, || ()))
}

/// List all tokens, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens",
    responses((status = 200, description = "The tokens", body = TokensDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let tokens = app.engine.tokens().await?;
    let tokens = TokensDoc { tokens: tokens.iter().map(|it| TokenDoc::from(&**it)).collect() };
    Ok(Wants::Documents.answer(|| tokens, || ()))
}

/// Get a token, without its secret.
#[utoipa::path(
    get, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 200, description = "The token", body = TokenDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let tokens = app.engine.tokens().await?;
    let token = tokens.iter().find(|it| *it.id == *id).ok_or_else(|| not_found("token", id))?;
    Ok(Wants::Documents.answer(|| TokenDoc::from(&**token), || ()))
}

/// Revoke a token. It is refused everywhere within a second.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)), request_body = Why,
    responses((status = 200, description = "Revoked", body = TokenDoc), Problems)
)]
pub async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may_administer()?;
    let actor = caller.actor(why.actor.as_deref());
    let token = app.engine.revoke_token(&id, &actor, why.cause.as_deref().unwrap_or_default()).await?;
    Ok(Wants::Documents.answer(|| TokenDoc::from(&*token), || ()))
}
