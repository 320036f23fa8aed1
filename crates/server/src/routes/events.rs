//! Events: page by page, or as they happen.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use ff_api::Problem;
use ff_api::event::{EventDoc, EventPage};
use ff_api::fields::{id, word};
use ff_api::record::EventRecord;
use ff_api::time::Time;
use ff_core::event::{Event, Family};
use ff_core::name::{LaneName, Namespace};
use ff_core::{ExecutionId, PartitionId};
use ff_engine::cursor::BadCursor;
use ff_engine::subscription::{Item, SubscribeError};
use ff_engine::{Cursor, EventFilter, Start, Subscription};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{page_limit, wait};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::{App, Shared};
use crate::body::{Path, Query};
use crate::stream::{self, KEEP_ALIVE, Sink};

#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Following {
    /// `execution`, `lease`, `flow`, `signal` or `operator`, or several with commas between.
    pub family: Option<String>,
    pub namespace: Option<String>,
    pub lane: Option<String>,
    pub execution: Option<String>,
    pub flow: Option<String>,
    /// `key=value`.
    pub tag: Option<String>,
    /// Right after this place; `Last-Event-ID` says the same.
    pub cursor: Option<String>,
    /// `now`, `beginning` or a time, if there is no cursor. If it is left out it is `now`, and of one execution the time
    /// of its creation.
    pub start: Option<String>,
    /// How many events a page has at most; 0 asks for nothing but the cursor.
    pub limit: Option<u32>,
    /// How long to wait for the first event of a page, such as `30s`; at most a minute.
    pub wait: Option<String>,
}

impl Following {
    fn filter(&self, caller: &Caller) -> Result<EventFilter, Refusal> {
        let families = self.family.iter().flat_map(|it| it.split(',')).filter(|it| !it.is_empty());
        let families = families.map(|it| word("family", it, Family::ALL, Family::word));
        let tag = self.tag.as_deref().map(|it| {
            let parts =
                it.split_once('=').ok_or_else(|| Problem::invalid("tag", "is not of the form key=value"));
            parts.map(|(key, value)| (key.to_owned(), value.to_owned()))
        });
        let namespace = self.namespace.as_deref().map(Namespace::parse).transpose()?;
        Ok(EventFilter {
            families: families.collect::<Result<_, _>>()?,
            namespace: caller.narrow(namespace)?,
            lane: self.lane.as_deref().map(LaneName::parse).transpose()?,
            execution: self.execution.as_deref().map(|it| id("execution", it)).transpose()?,
            flow: self.flow.as_deref().map(|it| id("flow", it)).transpose()?,
            tag: tag.transpose()?,
        })
    }

    /// Where to begin; there, if nothing else is said.
    fn from(&self, headers: &HeaderMap, otherwise: Start) -> Result<Start, Refusal> {
        let last = stream::last_id(headers);
        match (last.or(self.cursor.as_deref()), self.start.as_deref()) {
            (Some(cursor), _) => Ok(Start::After(cursor.parse().map_err(bad_cursor)?)),
            (None, None) => Ok(otherwise),
            (None, Some("now")) => Ok(Start::Now),
            (None, Some("beginning")) => Ok(Start::Beginning),
            (None, Some(text)) => match Time::parse(text) {
                Ok(time) => Ok(Start::At(time.0)),
                Err(_) => {
                    let problem = "is none of now, beginning and a time such as 2027-01-31T12:00:00Z";
                    Err(Problem::invalid("start", problem).into())
                }
            },
        }
    }
}

fn bad_cursor(bad: BadCursor) -> Problem {
    let mut problem = Problem::invalid("cursor", format!("is not good: {bad}"));
    problem.code = bad.code().to_owned();
    problem.kind = format!("urn:flowfabric:problem:{}", bad.code());
    if let BadCursor::Expired { oldest } = bad {
        problem.status = 410;
        problem.rejection = Some(serde_json::json!({ "oldest": oldest.to_string() }));
    }
    problem
}

pub fn not_subscribed(error: SubscribeError) -> Problem {
    match error {
        SubscribeError::Cursor(bad) => bad_cursor(bad),
        SubscribeError::Store(error) => {
            crate::app::problem(ff_engine::Failure::Unavailable(error.to_string()))
        }
    }
}

/// Read events page by page, or follow them: with `Accept: text/event-stream` they come as they happen, and
/// `Last-Event-ID` goes on where a reader was cut off.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(Following, ("Last-Event-ID" = Option<String>, Header, description = "Right after this place, as `cursor`")),
    responses((status = 200, description = "A page, or a stream of events",
               content((EventPage = "application/json"), (String = "text/event-stream"))),
              (status = 410, description = "Events after the cursor are no longer kept", body = Problem,
               content_type = "application/problem+json"), Problems)
)]
pub async fn all(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Query(following): Query<Following>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let filter = following.filter(&caller)?;
    let start = following.from(&headers, Start::Now)?;
    follow(app, (&caller, wants), headers, (filter, start), following).await
}

/// Read or follow the events of one execution.
#[utoipa::path(
    get, path = "/v1/executions/{id}/events", tag = "events",
    params(("id" = uuid::Uuid, Path), Following,
           ("Last-Event-ID" = Option<String>, Header, description = "Right after this place, as `cursor`")),
    responses((status = 200, description = "A page, or a stream of events",
               content((EventPage = "application/json"), (String = "text/event-stream"))),
              (status = 410, description = "Events after the cursor are no longer kept", body = Problem,
               content_type = "application/problem+json"), Problems)
)]
pub async fn of_execution(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    headers: HeaderMap,
    Path(id): Path<ExecutionId>,
    Query(mut following): Query<Following>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let execution = app.execution(&caller, id).await?;
    if following.execution.is_some() {
        return Err(Problem::invalid("execution", "is in the path already; leave it out of the query").into());
    }
    following.namespace.get_or_insert_with(|| execution.spec.namespace.to_string());
    let filter = EventFilter { execution: Some(id), ..following.filter(&caller)? };
    // All its events are in its partition, by whose clock it was created: none is older.
    let start = following.from(&headers, Start::At(execution.spec.created_at))?;
    follow(app, (&caller, wants), headers, (filter, start), following).await
}

async fn follow(
    app: Shared,
    (caller, wants): (&Caller, Wants),
    headers: HeaderMap,
    (filter, start): (EventFilter, Start),
    following: Following,
) -> Result<Response, Refusal> {
    let patience = wait(&app, following.wait.as_deref())?;
    let limit = if following.limit == Some(0) { 0 } else { page_limit(following.limit)? };
    let subscription = app.engine.subscribe(filter, start).await.map_err(not_subscribed)?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/event-stream") {
        return Ok(stream::answer(&app, caller, |sink| live(subscription, sink, wants)));
    }
    page(&app, subscription, limit, patience).await
}

async fn page(
    app: &Arc<App>,
    mut subscription: Subscription,
    limit: usize,
    patience: Duration,
) -> Result<Response, Refusal> {
    let mut events = Vec::new();
    let mut waited = patience.is_zero();
    let mut looks = app.config.event_looks_max;
    while events.len() < limit {
        let item = match subscription.next_within(&mut looks).await {
            None if events.is_empty() && !waited && looks > 0 => {
                waited = true;
                match app.wait_for(patience, subscription.next()).await {
                    Some(item) => item,
                    None => break,
                }
            }
            None => break,
            Some(item) => item,
        };
        match item {
            Item::Event { event, cursor, .. } => events.push(EventDoc::of(&event, cursor.to_string())),
            Item::Interrupted { error, .. } if events.is_empty() => {
                return Err(ff_engine::Failure::Unavailable(error).into());
            }
            Item::Interrupted { .. } => break,
        }
    }
    let page = EventPage { events, next_cursor: subscription.cursor().to_string() };
    Ok(Wants::Documents.answer(|| page, || ()))
}

async fn live(mut subscription: Subscription, sink: Sink, wants: Wants) {
    // Where it begins is told at once: whoever is cut off before the first event goes on from there.
    if !sink.keep_alive(Some(&subscription.cursor().to_string())).await {
        return;
    }
    loop {
        let item = tokio::time::timeout(KEEP_ALIVE, subscription.next()).await;
        let goes_on = match item {
            Err(_) => sink.keep_alive(Some(&subscription.cursor().to_string())).await,
            Ok(Item::Event { event, partition, cursor }) => {
                tell(&sink, wants, &event, partition, &cursor).await
            }
            Ok(Item::Interrupted { cursor, .. }) => {
                let cursor = cursor.to_string();
                let data = serde_json::json!({ "cursor": cursor }).to_string();
                sink.send(Some(&cursor), "interrupted", &data).await
            }
        };
        if !goes_on {
            return;
        }
    }
}

async fn tell(sink: &Sink, wants: Wants, event: &Event, partition: PartitionId, cursor: &Cursor) -> bool {
    let cursor = cursor.to_string();
    let data = match wants {
        Wants::Documents => serde_json::to_string(&EventDoc::of(event, cursor.clone())),
        Wants::Records => {
            serde_json::to_string(&EventRecord { partition: partition.0, event: event.clone() })
        }
    };
    match data {
        Ok(data) => sink.send(Some(&cursor), event.fact.word(), &data).await,
        Err(error) => {
            tracing::error!(%error, "an event cannot be written as JSON");
            false
        }
    }
}
