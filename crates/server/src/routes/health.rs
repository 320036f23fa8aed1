//! What the server says about itself.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use ff_api::Problem;
use ff_api::access::InfoDoc;
use ff_api::limits::{EdgeLimits, LimitsDoc};
use ff_api::record::VERSION;
use ff_api::time::Time;
use ff_engine::machine::{AgendaStats, MachineStats};
use serde::Serialize;

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Phase, Shared};
use crate::body::signal_bytes_max;

/// Whether the server does what it is there for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
}

/// What waits in the engine of this server, and what has failed there, since its start.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatsDoc {
    /// Commands that wait to be decided.
    pub queued: usize,
    /// Commits that are on their way to the store.
    pub in_flight: usize,
    /// Polls that wait for work.
    pub waiting_polls: usize,
    /// Batches that were sent to the store.
    pub batches: u64,
    pub commands: u64,
    /// Commits that another server was ahead of.
    pub conflicts: u64,
    /// How often a partition was its own for a moment, because commits kept conflicting.
    pub turns: u64,
    /// Commits whose answer was lost.
    pub unknown_outcomes: u64,
    /// Agenda entries that were carried out.
    pub fired: u64,
    /// Agenda entries that had nothing left to do.
    pub stray: u64,
    /// Agenda entries by their kind.
    pub agenda: BTreeMap<String, AgendaDoc>,
    /// Agenda entries that failed three times and are tried once a minute.
    pub stuck: Vec<String>,
}

/// What became of the agenda entries of one kind.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AgendaDoc {
    pub fired: u64,
    pub failed: u64,
    /// Those that fail again and again.
    pub stuck: u64,
    /// How late they were, together.
    pub late_ms: u64,
}

impl From<MachineStats> for StatsDoc {
    fn from(it: MachineStats) -> StatsDoc {
        // Taken apart whole, so that a figure that is added is not forgotten here.
        let MachineStats {
            queued,
            in_flight,
            waiting_polls,
            batches,
            commands,
            conflicts,
            turns,
            unknown_outcomes,
            fired,
            stray,
            agenda,
            stuck,
        } = it;
        let of_kind = |(kind, it): (Cow<'static, str>, AgendaStats)| {
            let AgendaStats { fired, failed, stuck, late_ms } = it;
            (kind.into_owned(), AgendaDoc { fired, failed, stuck, late_ms })
        };
        StatsDoc {
            queued,
            in_flight,
            waiting_polls,
            batches,
            commands,
            conflicts,
            turns,
            unknown_outcomes,
            fired,
            stray,
            agenda: agenda.into_iter().map(of_kind).collect(),
            stuck,
        }
    }
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
    responses((status = 200, description = "The limits", body = LimitsDoc), Problems)
)]
pub async fn limits(State(app): State<Shared>, _caller: Caller) -> Result<Response, Refusal> {
    let edge = EdgeLimits {
        body_bytes_max: app.config.body_bytes_max,
        signal_body_bytes_max: signal_bytes_max(&app),
        depth_max: app.config.depth_max,
        wait_ms_max: u64::try_from(app.config.wait_max.as_millis()).unwrap_or(u64::MAX),
        page_items_max: super::PAGE_MAX,
    };
    Ok(Wants::Documents.answer(|| LimitsDoc { rules: app.engine.limits().clone(), edge }, || ()))
}

/// Get what waits in the engine of this server, and what has failed there.
#[utoipa::path(
    get, path = "/v1/stats", tag = "server",
    responses((status = 200, description = "Figures since its start", body = StatsDoc), Problems)
)]
pub async fn stats(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    caller.may_everywhere()?;
    let stats = app.engine.stats().await?;
    Ok(Wants::Documents.answer(|| StatsDoc::from(stats), || ()))
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
    let ready = app.readiness.check(&app.engine, &*app.config.clock).await;
    ready.map_err(ff_engine::Failure::Unavailable)?;
    Ok(Wants::Documents.answer(|| Health { status: "ok" }, || ()))
}
