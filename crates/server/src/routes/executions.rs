//! Looking at executions.

use axum::extract::State;
use axum::response::Response;
use ff_api::execution::{CountDoc, CountRow, CountsDoc, ExecutionDoc, ExecutionPage, InputDoc, ResultDoc};
use ff_api::fields::word;
use ff_api::time::Time;
use ff_api::{Problem, payload, record};
use ff_core::name::{Kind, LaneName, Namespace, WorkerName};
use ff_core::payload::Slot;
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::state::Reason;
use ff_core::{Execution, ExecutionId, Payload, PublicState};
use serde::Deserialize;
use utoipa::IntoParams;

use super::veil::shown;
use super::{page_limit, wait};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Path, Query};

const SCAN_MAX: usize = 10_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Listing {
    pub namespace: Option<String>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// Members of this flow.
    pub flow: Option<String>,
    /// One state, or several with commas between.
    pub state: Option<String>,
    pub reason: Option<String>,
    /// `key=value`; may be given several times, and all must fit.
    pub tag: Vec<String>,
    pub created_from: Option<String>,
    pub created_before: Option<String>,
    pub worker: Option<String>,
    pub instance: Option<String>,
    pub error_code: Option<String>,
    pub error_text: Option<String>,
    /// `newest_first` (default) or `oldest_first`.
    pub order: Option<String>,
    pub limit: Option<u32>,
    /// How many records to look at before saying where to go on; 10,000 at most.
    pub scan: Option<u32>,
    /// From the page before.
    pub cursor: Option<String>,
}

fn time(field: &'static str, text: Option<&str>) -> Result<Option<i64>, Refusal> {
    let time = text.map(|text| {
        Time::parse(text).map_err(|problem| Problem::invalid(field, format!("is wrong: {problem}")))
    });
    Ok(time.transpose()?.map(|time| time.0))
}

impl Listing {
    /// A count has no pages and no order.
    fn is_no_page(&self) -> Result<(), Problem> {
        let given = [
            ("order", self.order.is_some()),
            ("limit", self.limit.is_some()),
            ("scan", self.scan.is_some()),
            ("cursor", self.cursor.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Problem::invalid(field, "is for lists; leave it out of a count")),
            None => Ok(()),
        }
    }

    pub fn filter(&self, caller: &Caller) -> Result<Filter, Refusal> {
        let namespace = self.namespace.as_deref().map(Namespace::parse).transpose()?;
        let words = |text: &Option<String>| -> Vec<String> {
            text.iter().flat_map(|it| it.split(',')).filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let states = words(&self.state);
        let states = states.iter().map(|it| word("state", it, PublicState::ALL, PublicState::word));
        let tags = self.tag.iter().map(|it| {
            let parts = it.split_once('=');
            parts
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .ok_or_else(|| Problem::invalid("tag", "is not of the form key=value"))
        });
        Ok(Filter {
            namespace: caller.narrow(namespace)?,
            lane: self.lane.as_deref().map(LaneName::parse).transpose()?,
            kind: self.kind.as_deref().map(Kind::parse).transpose()?,
            flow: self.flow.as_deref().map(|it| ff_api::fields::id("flow", it)).transpose()?,
            states: states.collect::<Result<_, _>>()?,
            reason: self
                .reason
                .as_deref()
                .map(|it| word("reason", it, Reason::ALL, Reason::word))
                .transpose()?,
            tags: tags.collect::<Result<_, Problem>>()?,
            created_from: time("created_from", self.created_from.as_deref())?,
            created_before: time("created_before", self.created_before.as_deref())?,
            worker: self.worker.as_deref().map(WorkerName::parse).transpose()?,
            instance: self.instance.as_deref().map(|it| ff_api::fields::id("instance", it)).transpose()?,
            error_code: self.error_code.clone(),
            error_text: self.error_text.clone(),
        })
    }
}

/// How many records a page of a filtered list looks at before it says where to go on.
pub fn scan_max(asked: Option<u32>) -> usize {
    asked.map_or(SCAN_MAX, |asked| (asked as usize).clamp(1, SCAN_MAX))
}

pub fn order(text: Option<&str>) -> Result<Order, Refusal> {
    match text {
        None | Some("newest_first") => Ok(Order::NewestFirst),
        Some("oldest_first") => Ok(Order::OldestFirst),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(Problem::invalid("order", format!("is {shown:?}; allowed are newest_first and oldest_first"))
                .into())
        }
    }
}

/// List executions that match a filter, page by page.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executions", params(Listing),
    responses((status = 200, description = "A page", body = ExecutionPage), Problems)
)]
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Query(listing): Query<Listing>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let ask = PageAsk {
        filter: listing.filter(&caller)?,
        order: order(listing.order.as_deref())?,
        after: listing.cursor.as_deref().map(|it| ff_api::fields::id("cursor", it)).transpose()?,
        limit: page_limit(listing.limit)?,
        scan_max: scan_max(listing.scan),
    };
    let page = app.engine.list(ask).await?;
    Ok(wants.answer(
        || ExecutionPage {
            executions: page.executions.iter().map(ExecutionDoc::from).collect(),
            next_cursor: page.next.map(|id| id.to_string()),
        },
        || record::Executions { executions: shown(&caller, &page.executions), next: page.next },
    ))
}

/// Count executions that match a filter.
#[utoipa::path(
    get, path = "/v1/executions/count", tag = "executions", params(Listing),
    responses((status = 200, description = "How many there are", body = CountDoc), Problems)
)]
pub async fn count(
    State(app): State<Shared>,
    caller: Caller,
    Query(listing): Query<Listing>,
    wants: Wants,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    listing.is_no_page()?;
    let (count, more) = app.engine.count(&listing.filter(&caller)?).await?;
    Ok(wants.answer(|| CountDoc { count, more }, || CountDoc { count, more }))
}

/// Count all executions by namespace, lane, kind and state.
#[utoipa::path(
    get, path = "/v1/executions/counts", tag = "executions",
    responses((status = 200, description = "Exact counts", body = CountsDoc), Problems)
)]
pub async fn counts(State(app): State<Shared>, caller: Caller, wants: Wants) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let mut counts = app.engine.counts().await?;
    counts.retain(|(key, _)| caller.sees(&key.namespace));
    Ok(wants.answer(
        || CountsDoc {
            counts: counts
                .iter()
                .map(|(key, count)| CountRow {
                    namespace: key.namespace.to_string(),
                    lane: key.lane.to_string(),
                    kind: key.kind.to_string(),
                    state: key.state.word().to_owned(),
                    count: *count,
                })
                .collect(),
        },
        || record::Counts { counts: counts.clone() },
    ))
}

/// Get an execution, or wait for its end.
#[utoipa::path(
    get, path = "/v1/executions/{id}", tag = "executions", params(("id" = uuid::Uuid, Path), Waiting),
    responses((status = 200, description = "The execution", body = ExecutionDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Query(waiting): Query<Waiting>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let patience = wait(&app, waiting.wait.as_deref())?;
    if !patience.is_zero() {
        app.check_execution(&caller, id).await?;
        app.wait_for(patience, app.engine.wait(id)).await.transpose()?;
    }
    let execution = app.execution(&caller, id).await?;
    Ok(wants.answer(
        || ExecutionDoc::from(&*execution),
        || record::ExecutionRecord { execution: shown(&caller, &execution) },
    ))
}

/// Get the input of an execution.
#[utoipa::path(
    get, path = "/v1/executions/{id}/input", tag = "executions", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The input; nulls if payloads are hidden from the token", body = InputDoc), Problems)
)]
pub async fn input(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.execution(&caller, id).await?;
    let found = app.engine.payload(id, Slot::Input).await?;
    let payload = found.filter(|_| caller.sees_payloads());
    let (input, input_encoded) = payload.as_ref().map_or((None, None), payload::split);
    Ok(wants
        .answer(|| InputDoc { input, input_encoded }, || record::PayloadRecord { payload: payload.clone() }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Waiting {
    /// How long to wait for the end, such as `30s`; at most a minute.
    pub wait: Option<String>,
}

/// Get the result of an execution, or wait for it.
#[utoipa::path(
    get, path = "/v1/executions/{id}/result", tag = "executions", params(("id" = uuid::Uuid, Path), Waiting),
    responses((status = 200, description = "How it stands, with its result if it has ended", body = ResultDoc), Problems)
)]
pub async fn result(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<ExecutionId>,
    Query(waiting): Query<Waiting>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let patience = wait(&app, waiting.wait.as_deref())?;
    app.check_execution(&caller, id).await?;
    let mut ended = None;
    if !patience.is_zero() {
        ended = app.wait_for(patience, app.engine.wait(id)).await.transpose()?;
    }
    let (execution, result) = match ended {
        Some(ended) => (ended.execution, ended.result),
        None => {
            let execution = app.execution(&caller, id).await?;
            let result =
                if execution.has_result() { app.engine.payload(id, Slot::Result).await? } else { None };
            (execution, result)
        }
    };
    let result = result.filter(|_| caller.sees_payloads());
    Ok(wants.answer(
        || result_document(&execution, result.as_ref()),
        || {
            let execution = execution.end().is_some().then(|| shown(&caller, &execution));
            record::Ended { execution, result: result.clone() }
        },
    ))
}

fn result_document(execution: &Execution, result: Option<&Payload>) -> ResultDoc {
    let (result, result_encoded) = result.map_or((None, None), payload::split);
    let end = execution.end();
    ResultDoc {
        id: execution.id,
        state: execution.public_state().word().to_owned(),
        reason: execution.reason().word().to_owned(),
        ended: end.is_some(),
        result,
        result_encoded,
        error: end.and_then(|end| end.error.as_ref()).map(Into::into),
    }
}
