//! Signals and waitpoints.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ff_api::fields::{Why, id, word};
use ff_api::mail::{
    OpenedDoc, SignalDoc, SignalPage, SignalRequest, SignalledDoc, WaitpointDoc, WaitpointPage,
};
use ff_api::time::Time;
use ff_api::{Problem, record};
use ff_core::commands::{SendSignal, To};
use ff_core::event::{Fact, Family};
use ff_core::name::{Kind, LaneName, Namespace, SignalName};
use ff_core::query::{Order, WaitpointFilter, WaitpointPage as Page, WaitpointPageAsk};
use ff_core::state::Reason;
use ff_core::suspension::WaitpointId;
use ff_core::{ExecutionId, Rejection, Reply};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EventFilter, Start};
use serde::Deserialize;
use utoipa::IntoParams;

use super::attempts::hidden;
use super::executions::{order, scan_max};
use super::reading::document;
use super::{page_limit, take_key, wait};
use crate::access::{Caller, May, bearer, caller};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path, Query};

/// How waitpoint tokens begin; access tokens begin otherwise.
const WAITPOINT_TOKEN: &str = "v1.";

/// How many signals a page has at most.
const SIGNALS_MAX: usize = 1_000;

/// Send a signal to an execution, by its name.
#[utoipa::path(
    post, path = "/v1/executions/{id}/signal", tag = "signals", request_body = SignalRequest,
    params(("id" = uuid::Uuid, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body")),
    responses((status = 200, description = "What it did", body = SignalledDoc), Problems)
)]
pub async fn signal_execution(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Path(id): Path<ExecutionId>,
    Body(mut it): Body<SignalRequest>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    take_key(&headers, "key", &mut it.key)?;
    app.check_execution(&caller, id).await?;
    let signal = by_caller(&caller, it, To::Execution(id))?;
    deliver(&app, wants, signal).await
}

/// A signal of a holder of an access token: it cannot pass itself off as another.
fn by_caller(caller: &Caller, mut it: SignalRequest, to: To) -> Result<SendSignal, Refusal> {
    if it.token.is_some() {
        return Err(Problem::invalid("token", "is for signals to waitpoints").into());
    }
    it.source = Some(caller.actor(it.source.as_deref()));
    Ok(known(caller, it.command(to)?))
}

/// A signal whose sender is known by its access token, if it has one.
fn known(caller: &Caller, signal: SendSignal) -> SendSignal {
    SendSignal { principal: caller.principal().map(Into::into), ..signal }
}

/// A signal with the token of its waitpoint. That is all it needs; who shows an access token beside it is known by that.
async fn by_token(
    app: &Shared,
    headers: &HeaderMap,
    mut it: SignalRequest,
    to: To,
) -> Result<SendSignal, Refusal> {
    if bearer(headers)?.is_none_or(|it| it.starts_with(WAITPOINT_TOKEN)) {
        return Ok(it.command(to)?);
    }
    let caller = caller(app, headers).await?;
    it.source = Some(caller.actor(it.source.as_deref()));
    Ok(known(&caller, it.command(to)?))
}

async fn deliver(app: &Shared, wants: Wants, signal: SendSignal) -> Result<Response, Refusal> {
    let reply: Reply = app.run(signal).await?;
    Ok(wants.reply(&reply, document))
}

/// Send a signal to a waitpoint, with its own token or an access token.
#[utoipa::path(
    post, path = "/v1/waitpoints/{id}/signal", tag = "signals", request_body = SignalRequest,
    security((), ("token" = [])),
    params(("id" = String, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body")),
    responses((status = 200, description = "What it did", body = SignalledDoc), Problems)
)]
pub async fn signal_waitpoint(
    State(app): State<Shared>,
    headers: HeaderMap,
    wants: Wants,
    Path(waitpoint): Path<String>,
    Body(mut it): Body<SignalRequest>,
) -> Result<Response, Refusal> {
    let waitpoint: WaitpointId = id("waitpoint", &waitpoint)?;
    take_key(&headers, "key", &mut it.key)?;
    let carried = bearer(&headers)?.filter(|it| it.starts_with(WAITPOINT_TOKEN)).map(str::to_owned);
    if let Some(token) = it.token.take().or(carried) {
        let to = Engine::token_target(&token)?;
        // A token is good for its own waitpoint and for nothing else.
        if !matches!(&to, To::Token(token) if token.waitpoint == waitpoint) {
            return Err(Problem::from(&Rejection::TokenRefused).into());
        }
        let signal = by_token(&app, &headers, it, to).await?;
        return deliver(&app, wants, signal).await;
    }
    let caller = caller(&app, &headers).await?;
    caller.may(May::Submit)?;
    app.check_execution(&caller, waitpoint.execution).await?;
    let signal = by_caller(&caller, it, To::Waitpoint(waitpoint))?;
    deliver(&app, wants, signal).await
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Inbox {
    pub namespace: Option<String>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// The name of the waitpoint.
    pub name: Option<String>,
    pub reason: Option<String>,
    pub execution: Option<String>,
    /// `oldest_first` (default) or `newest_first`.
    pub order: Option<String>,
    pub limit: Option<u32>,
    /// How many records to look at before saying where to go on; 10,000 at most.
    pub scan: Option<u32>,
    /// From the page before.
    pub cursor: Option<String>,
    /// How long to wait for the first one if there is none, such as `30s`; at most a minute.
    pub wait: Option<String>,
}

/// List open waitpoints: what somebody has still to decide.
#[utoipa::path(
    get, path = "/v1/waitpoints", tag = "signals", params(Inbox),
    responses((status = 200, description = "A page", body = WaitpointPage), Problems)
)]
pub async fn waitpoints(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Query(it): Query<Inbox>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let patience = wait(&app, it.wait.as_deref())?;
    let namespace = it.namespace.as_deref().map(Namespace::parse).transpose()?;
    let ask = WaitpointPageAsk {
        filter: WaitpointFilter {
            namespace: caller.narrow(namespace)?,
            lane: it.lane.as_deref().map(LaneName::parse).transpose()?,
            kind: it.kind.as_deref().map(Kind::parse).transpose()?,
            name: it.name.as_deref().map(SignalName::parse).transpose()?,
            reason: it
                .reason
                .as_deref()
                .map(|it| word("reason", it, Reason::ALL, Reason::word))
                .transpose()?,
            execution: it.execution.as_deref().map(|it| id("execution", it)).transpose()?,
        },
        order: order(Some(it.order.as_deref().unwrap_or("oldest_first")))?,
        after: it.cursor.as_deref().map(|it| id("cursor", it)).transpose()?,
        limit: page_limit(it.limit)?,
        scan_max: scan_max(it.scan),
    };
    let page = first_ones(&app, ask, patience).await?;
    Ok(wants.answer(
        || WaitpointPage {
            waitpoints: page.waitpoints.iter().map(WaitpointDoc::from).collect(),
            next_cursor: page.next.map(|id| id.to_string()),
        },
        || record::Waitpoints { waitpoints: page.waitpoints.clone(), next: page.next },
    ))
}

/// The page, once there is something to show on it or nobody waits any more.
async fn first_ones(app: &Shared, ask: WaitpointPageAsk, patience: Duration) -> Result<Page, Refusal> {
    if patience.is_zero() {
        return Ok(app.engine.waitpoints(ask).await?);
    }
    // Heard from before the first look, so that nothing falls between.
    let filter = EventFilter {
        families: vec![Family::Signal],
        namespace: ask.filter.namespace.clone(),
        lane: ask.filter.lane.clone(),
        execution: ask.filter.execution,
        ..EventFilter::default()
    };
    let mut news = app.engine.subscribe(filter, Start::Now).await.map_err(super::events::not_subscribed)?;
    let page = app.engine.waitpoints(ask.clone()).await?;
    if !page.waitpoints.is_empty() || page.next.is_some() {
        return Ok(page);
    }
    let opened = async {
        loop {
            if let Item::Event { event, .. } = news.next().await
                && let Fact::WaitpointOpened { .. } = event.fact
            {
                let page = app.engine.waitpoints(ask.clone()).await?;
                if !page.waitpoints.is_empty() {
                    return Ok(page);
                }
            }
        }
    };
    app.wait_for(patience, opened).await.unwrap_or(Ok(page))
}

/// Get an open waitpoint.
#[utoipa::path(
    get, path = "/v1/waitpoints/{id}", tag = "signals", params(("id" = String, Path)),
    responses((status = 200, description = "The waitpoint", body = WaitpointDoc), Problems)
)]
pub async fn waitpoint(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(waitpoint): Path<String>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let waitpoint: WaitpointId = id("waitpoint", &waitpoint)?;
    app.check_execution(&caller, waitpoint.execution).await?;
    let ask = WaitpointPageAsk {
        filter: WaitpointFilter { execution: Some(waitpoint.execution), ..WaitpointFilter::default() },
        order: Order::OldestFirst,
        after: Some(WaitpointId { number: waitpoint.number.saturating_sub(1), ..waitpoint }),
        limit: 1,
        scan_max: 1,
    };
    let mut found = app.engine.waitpoints(ask).await?.waitpoints;
    found.retain(|it| it.id == waitpoint);
    let Some(open) = found.first() else {
        return Err(not_found("open waitpoint", waitpoint.to_string()).into());
    };
    Ok(wants
        .answer(|| WaitpointDoc::from(open), || record::Waitpoints { waitpoints: found.clone(), next: None }))
}

/// Make the token of an open waitpoint, to be handed to whoever shall decide. Workers may, too: theirs is the execution
/// that waits.
#[utoipa::path(
    post, path = "/v1/waitpoints/{id}/token", tag = "signals", request_body = Why,
    params(("id" = String, Path)),
    responses((status = 200, description = "The token", body = OpenedDoc), Problems)
)]
pub async fn issue_token(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(waitpoint): Path<String>,
    Body(it): Body<Why>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate).or_else(|_| caller.may(May::Work))?;
    let waitpoint: WaitpointId = id("waitpoint", &waitpoint)?;
    app.check_execution(&caller, waitpoint.execution).await?;
    let actor = caller.actor(it.actor.as_deref());
    let opened = app.engine.issue_token(waitpoint, &actor, it.cause.as_deref().unwrap_or_default()).await?;
    let (expires_at, token) = (opened.expires_at, opened.token.reveal().to_owned());
    Ok(wants.answer(
        || OpenedDoc { waitpoint, expires_at: expires_at.map(Time), token: token.clone() },
        || record::Opened { waitpoint, expires_at, token: token.clone() },
    ))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Arrived {
    /// Signals after this number.
    pub after: Option<u32>,
    pub limit: Option<u32>,
}

/// How many signals a page has: each may be large, and all are held at once.
fn signals_limit(limit: Option<u32>) -> Result<usize, Refusal> {
    match page_limit(limit)? {
        limit @ ..=SIGNALS_MAX => Ok(limit),
        limit => Err(Problem::invalid("limit", format!("is {limit}; allowed are 1 to {SIGNALS_MAX}")).into()),
    }
}

/// List the signals that an execution has kept.
#[utoipa::path(
    get, path = "/v1/executions/{id}/signals", tag = "signals", params(("id" = uuid::Uuid, Path), Arrived),
    responses((status = 200, description = "A page", body = SignalPage), Problems)
)]
pub async fn list_of_execution(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Query(it): Query<Arrived>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    let limit = signals_limit(it.limit)?;
    let mut signals = app.engine.signals(id, it.after.unwrap_or(0), limit).await?;
    if !caller.sees_payloads() {
        signals.iter_mut().for_each(|signal| signal.payload = hidden());
    }
    let next_after = signals.last().map(|it| it.number).filter(|_| signals.len() == limit);
    Ok(wants.answer(
        || SignalPage { signals: signals.iter().map(SignalDoc::from).collect(), next_after },
        || record::Signals { signals: signals.clone() },
    ))
}
