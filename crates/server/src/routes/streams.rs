//! The output of an execution: page by page, or as it is appended.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use ff_api::output::{FrameDoc, StreamDoc};
use ff_api::{Problem, record};
use ff_core::ExecutionId;
use ff_core::query::FramePageAsk;
use ff_engine::tail::BadPlace;
use ff_engine::{Output, Place, Tail};
use serde::Deserialize;
use utoipa::IntoParams;

use super::executions::order;
use super::{page_limit, wait};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Path, Query};
use crate::stream::{self, KEEP_ALIVE, Sink};

/// How many bytes of output one page has at most.
const PAGE_BYTES: usize = 4 << 20;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Reading {
    /// The attempt; the one that appended last if it is left out. A stream begins with it, or with the first.
    pub attempt: Option<u32>,
    /// Frames after this number. In a stream: right after `ATTEMPT:NUMBER`, as `Last-Event-ID` says it.
    pub after: Option<String>,
    /// `oldest_first` (default) or `newest_first`.
    pub order: Option<String>,
    /// How many frames; 0 asks for nothing but what is known of the stream.
    pub limit: Option<u32>,
    /// How many bytes of output at most; at least one frame comes.
    pub bytes: Option<u32>,
    /// How long to wait for a frame after `after` if there is none yet, such as `30s`; at most a minute. The end of the
    /// execution ends the wait.
    pub wait: Option<String>,
}

/// Read the output of an execution, or follow it: with `Accept: text/event-stream` frames come as they are appended.
#[utoipa::path(
    get, path = "/v1/executions/{id}/stream", tag = "output",
    params(("id" = uuid::Uuid, Path), Reading,
           ("Last-Event-ID" = Option<String>, Header, description = "Of a stream: right after this place, as `after`")),
    responses((status = 200, description = "A page, or a stream of frames",
               content((StreamDoc = "application/json"), (String = "text/event-stream"))), Problems)
)]
pub async fn stream(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Path(id): Path<ExecutionId>,
    Query(reading): Query<Reading>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, id).await?;
    if !caller.sees_payloads() {
        let detail = "output is hidden from this token; use one that may see payloads";
        return Err(Problem::new(403, "forbidden", "Not allowed", detail).into());
    }
    let last = stream::last_id(&headers);
    let last = last.map(|text| place("Last-Event-ID", text)).transpose()?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/event-stream") {
        let after = match (last, reading.after.as_deref()) {
            (None, Some(text)) => Some(place("after", text)?),
            (None, None) => reading.attempt.map(|attempt| Place { attempt, number: 0 }),
            (last, _) => last,
        };
        let tail = app.engine.tail(id, after).await?;
        return Ok(stream::answer(&app, &caller, |sink| live(tail, sink, wants)));
    }
    page(&app, &caller, wants, id, &reading).await
}

fn place(field: &'static str, text: &str) -> Result<Place, Problem> {
    text.parse().map_err(|bad: BadPlace| Problem::invalid(field, format!("is wrong: {bad}")))
}

async fn page(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    id: ExecutionId,
    reading: &Reading,
) -> Result<Response, Refusal> {
    let order = order(Some(reading.order.as_deref().unwrap_or("oldest_first")))?;
    let limit = if reading.limit == Some(0) { 0 } else { page_limit(reading.limit)? };
    let after = reading.after.as_deref().map(str::parse::<u64>).transpose();
    let after = after.map_err(|_| Problem::invalid("after", "is not a number of a frame"))?;
    let patience = wait(app, reading.wait.as_deref())?;
    let mut newest = app.execution(caller, id).await?.attempt_number();
    if !patience.is_zero() {
        let attempt = match reading.attempt {
            Some(attempt) => attempt,
            None => app.engine.stream(id).await?.map_or(newest.max(1), |it| it.attempt),
        };
        let mut tail = app.engine.tail(id, Some(Place { attempt, number: after.unwrap_or(0) })).await?;
        app.wait_for(patience, tail.next()).await.transpose()?;
        newest = app.execution(caller, id).await?.attempt_number();
    }
    let known = app.engine.stream(id).await?;
    let frames = match reading.attempt.or(known.as_ref().map(|it| it.attempt)) {
        Some(attempt) if limit > 0 => {
            let ask = FramePageAsk {
                execution: id,
                attempt,
                order,
                after: after.unwrap_or(0),
                limit,
                bytes: reading.bytes.map_or(PAGE_BYTES, |bytes| (bytes as usize).min(PAGE_BYTES)),
            };
            app.engine.frames(ask).await?
        }
        _ => Vec::new(),
    };
    Ok(wants.answer(
        || StreamDoc::of(known.as_deref(), &frames, newest),
        || record::StreamRecord { stream: known.clone(), frames: frames.clone() },
    ))
}

async fn live(mut tail: Tail, sink: Sink, wants: Wants) {
    if !sink.keep_alive(Some(&tail.place().to_string())).await {
        return;
    }
    loop {
        let next = match tokio::time::timeout(KEEP_ALIVE, tail.next()).await {
            Err(_) => {
                let place = tail.place().to_string();
                if !sink.keep_alive(Some(&place)).await {
                    return;
                }
                continue;
            }
            Ok(next) => next,
        };
        let place = tail.place().to_string();
        let goes_on = match next {
            Ok(Some(Output::Frame(frame))) => {
                let data = match wants {
                    Wants::Documents => serde_json::to_string(&FrameDoc::from(&frame)),
                    Wants::Records => serde_json::to_string(&frame),
                };
                sink.send(Some(&place), "frame", &data.unwrap_or_default()).await
            }
            Ok(Some(Output::Closed { attempt, outcome })) => {
                let data = serde_json::json!({ "attempt": attempt, "outcome": outcome }).to_string();
                sink.send(Some(&place), "closed", &data).await
            }
            Ok(Some(Output::Ended(state))) => {
                sink.send(Some(&place), "ended", &serde_json::json!({ "state": state }).to_string()).await
            }
            Ok(None) => false,
            Err(failure) => {
                let problem = crate::app::problem(failure);
                let data = serde_json::to_string(&problem).unwrap_or_default();
                sink.send(Some(&place), "problem", &data).await;
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}
