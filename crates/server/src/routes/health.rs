//! What the server says about itself.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use ff_api::Problem;
use ff_api::access::InfoDoc;
use ff_api::record::VERSION;
use ff_api::time::Time;
use serde::Serialize;

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Phase, Shared};

/// Whether the server does what it is there for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
}

/// Get what the server says about itself.
#[utoipa::path(
    get, path = "/v1/info", tag = "server",
    responses((status = 200, description = "Version, store, time, and the caller's role", body = InfoDoc), Problems)
)]
pub async fn info(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    let info = InfoDoc {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        records: VERSION,
        server: app.engine.server().to_owned(),
        store: app.engine.store().info().kind.to_owned(),
        now: Time(app.now()),
        authentication: app.config.authentication,
        role: caller.role().word().to_owned(),
    };
    Ok(Wants::Documents.answer(|| info, || ()))
}

/// Get the limits on what may be sent.
#[utoipa::path(
    get, path = "/v1/limits", tag = "server",
    responses((status = 200, description = "The limits", body = ff_api::Json), Problems)
)]
pub async fn limits(State(app): State<Shared>, _caller: Caller) -> Result<Response, Refusal> {
    Ok(Wants::Documents.answer(|| app.engine.limits().clone(), || ()))
}

/// Get what waits in the engine of this server, and what has failed there.
#[utoipa::path(
    get, path = "/v1/stats", tag = "server",
    responses((status = 200, description = "Figures since its start", body = ff_api::Json), Problems)
)]
pub async fn stats(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    caller.may_everywhere()?;
    let stats = app.engine.stats().await?;
    Ok(Wants::Documents.answer(|| stats, || ()))
}

/// Get the figures that operators watch, in the text that Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"), Problems)
)]
pub async fn metrics(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    caller.may_everywhere()?;
    let text = crate::metrics::render(&app).await?;
    let headers =
        [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    Ok((headers, text).into_response())
}

/// Whether the process lives.
#[utoipa::path(
    get, path = "/healthz", tag = "server", security(()),
    responses((status = 200, description = "It lives", body = Health))
)]
pub async fn healthz() -> Response {
    Wants::Documents.answer(|| Health { status: "ok" }, || ())
}

/// Whether requests should be sent here: not when it stops, and not when its store is out of reach.
#[utoipa::path(
    get, path = "/readyz", tag = "server", security(()),
    responses((status = 200, description = "Ready", body = Health),
              (status = 503, description = "Not now", body = Problem, content_type = "application/problem+json"))
)]
pub async fn readyz(State(app): State<Shared>) -> Result<Response, Refusal> {
    if *app.phase.borrow() != Phase::Serving {
        let detail = "the server is asked to stop; send requests elsewhere";
        return Err(Problem::new(503, "shutting_down", "Shutting down", detail).retryable().into());
    }
    let status = app.engine.store().status().await;
    status.map_err(|error| crate::app::problem(ff_engine::Failure::Unavailable(error.to_string())))?;
    Ok(Wants::Documents.answer(|| Health { status: "ok" }, || ()))
}
