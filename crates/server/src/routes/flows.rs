//! Flows: handing them in, and looking at them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::fields::word;
use ff_api::flow::{
    EdgeDoc, EdgePageDoc, FlowChanged, FlowDescriptionDoc, FlowDoc, FlowPage, FlowRequest, FlowResultDoc,
    GraphDoc, MemberDoc,
};
use ff_api::{Problem, payload, record};
use ff_core::commands::NewNode;
use ff_core::flow::{EdgeKey, FlowState};
use ff_core::name::{Kind, Namespace};
use ff_core::query::{FlowFilter, FlowPageAsk};
use ff_core::{ExecutionId, Flow, FlowId, Reply};
use ff_engine::flows::Direction;
use serde::Deserialize;
use utoipa::IntoParams;

use super::executions::{Waiting, order, scan_max};
use super::veil::shown;
use super::{page_limit, wait};
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path, Query};

/// The most members that a graph is drawn of.
const GRAPH_MAX: usize = 10_000;

/// Create a flow, with its first nodes and edges.
#[utoipa::path(
    post, path = "/v1/flows", tag = "flows", request_body = FlowRequest,
    responses((status = 201, description = "Created", body = FlowChanged),
              (status = 200, description = "It was there before", body = FlowChanged), Problems)
)]
pub async fn create(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(request): Body<FlowRequest>,
) -> Result<Response, Refusal> {
    caller.may(May::Submit)?;
    let actor = caller.actor(request.actor.as_deref());
    let command = request.command(&*app, &actor, || app.engine.new_flow_id(app.now()))?;
    caller.may_in(&command.namespace)?;
    let nodes = names(&command.nodes);
    let reply = app.run(command).await?;
    let existing = matches!(reply, Reply::Flow { existing: true, .. });
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    changed(wants, status, reply, nodes)
}

/// The ids of named nodes.
pub fn names(nodes: &[NewNode]) -> BTreeMap<String, ExecutionId> {
    let named = nodes.iter().filter_map(|node| Some((node.name.as_ref()?.to_string(), node.create.id)));
    named.collect()
}

/// A flow after a change.
pub fn changed(
    wants: Wants,
    status: StatusCode,
    reply: Reply,
    nodes: BTreeMap<String, ExecutionId>,
) -> Result<Response, Refusal> {
    let Reply::Flow { flow, existing } = &reply else { return Err(odd_reply(&reply).into()) };
    let document = || FlowChanged { flow: FlowDoc::from(&**flow), existing: *existing, nodes };
    Ok(wants.answer_with(status, document, || reply.clone()))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct FlowListing {
    pub namespace: Option<String>,
    pub kind: Option<String>,
    /// One state, or several with commas between.
    pub state: Option<String>,
    /// `key=value`; may be given several times, and all must fit.
    pub tag: Vec<String>,
    /// `newest_first` (default) or `oldest_first`.
    pub order: Option<String>,
    pub created_from: Option<String>,
    pub created_before: Option<String>,
    pub limit: Option<u32>,
    /// How many records to look at before saying where to go on; 10,000 at most.
    pub scan: Option<u32>,
    /// From the page before.
    pub cursor: Option<String>,
}

impl FlowListing {
    fn filter(&self, caller: &Caller) -> Result<FlowFilter, Refusal> {
        let as_executions = super::executions::Listing {
            namespace: self.namespace.clone(),
            tag: self.tag.clone(),
            created_from: self.created_from.clone(),
            created_before: self.created_before.clone(),
            ..Default::default()
        };
        let shared = as_executions.filter(caller)?;
        let states = self.state.iter().flat_map(|it| it.split(',')).filter(|it| !it.is_empty());
        let states = states.map(|it| word("state", it, FlowState::ALL, FlowState::word));
        Ok(FlowFilter {
            namespace: shared.namespace,
            kind: self.kind.as_deref().map(Kind::parse).transpose()?,
            states: states.collect::<Result<_, _>>()?,
            tags: shared.tags,
            created_from: shared.created_from,
            created_before: shared.created_before,
        })
    }
}

/// List flows that match a filter, page by page.
#[utoipa::path(
    get, path = "/v1/flows", tag = "flows", params(FlowListing),
    responses((status = 200, description = "A page", body = FlowPage), Problems)
)]
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Query(listing): Query<FlowListing>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let ask = FlowPageAsk {
        filter: listing.filter(&caller)?,
        order: order(listing.order.as_deref())?,
        after: listing.cursor.as_deref().map(|it| ff_api::fields::id("cursor", it)).transpose()?,
        limit: page_limit(listing.limit)?,
        scan_max: scan_max(listing.scan),
    };
    let page = app.engine.flows(ask).await?;
    Ok(wants.answer(
        || FlowPage {
            flows: page.flows.iter().map(FlowDoc::from).collect(),
            next_cursor: page.next.map(|id| id.to_string()),
        },
        || record::Flows { flows: shown(&caller, &page.flows), next: page.next },
    ))
}

/// Get a flow, or wait for its end.
#[utoipa::path(
    get, path = "/v1/flows/{id}", tag = "flows", params(("id" = uuid::Uuid, Path), Waiting),
    responses((status = 200, description = "The flow", body = FlowDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Query(waiting): Query<Waiting>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let flow = waited_for(&app, &caller, id, &waiting).await?;
    let ended = flow.live.end.is_some();
    Ok(wants.answer(|| FlowDoc::from(&*flow), || record::FlowRecord { flow: shown(&caller, &flow), ended }))
}

/// A flow, after its end if that comes in time.
pub async fn waited_for(
    app: &Shared,
    caller: &Caller,
    id: FlowId,
    waiting: &Waiting,
) -> Result<Arc<Flow>, Refusal> {
    let patience = wait(app, waiting.wait.as_deref())?;
    let flow = app.flow(caller, id).await?;
    if flow.live.end.is_some() || patience.is_zero() {
        return Ok(flow);
    }
    match app.wait_for(patience, app.engine.wait_flow(id)).await.transpose()? {
        Some(ended) => Ok(ended),
        None => Ok(app.flow(caller, id).await?),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Members {
    /// Members after this number.
    pub after: Option<u64>,
    pub limit: Option<u32>,
}

/// Get a flow with a page of its members.
#[utoipa::path(
    get, path = "/v1/flows/{id}/members", tag = "flows", params(("id" = uuid::Uuid, Path), Members),
    responses((status = 200, description = "The flow and its members", body = FlowDescriptionDoc), Problems)
)]
pub async fn members(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Query(members): Query<Members>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_flow(&caller, id).await?;
    let found = app.engine.describe_flow(id, members.after.unwrap_or(0), page_limit(members.limit)?).await?;
    Ok(wants.answer(
        || FlowDescriptionDoc {
            flow: FlowDoc::from(&*found.flow),
            members: found.members.iter().map(|it| MemberDoc::from(&**it)).collect(),
            next_after: found.next,
        },
        || record::FlowMembers {
            flow: shown(&caller, &found.flow),
            members: shown(&caller, &found.members),
            next: found.next,
        },
    ))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Drawn {
    /// How many members at most; 1,000 if it is left out, at most 10,000.
    pub limit: Option<u32>,
}

/// Get a flow with its nodes and edges.
#[utoipa::path(
    get, path = "/v1/flows/{id}/graph", tag = "flows", params(("id" = uuid::Uuid, Path), Drawn),
    responses((status = 200, description = "The graph", body = GraphDoc), Problems)
)]
pub async fn graph(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Query(drawn): Query<Drawn>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_flow(&caller, id).await?;
    let max = (drawn.limit.unwrap_or(1_000) as usize).min(GRAPH_MAX);
    let graph = app.engine.graph(id, max).await?;
    Ok(wants.answer(
        || GraphDoc {
            flow: FlowDoc::from(&*graph.flow),
            members: graph.members.iter().map(|it| MemberDoc::from(&**it)).collect(),
            edges: graph.edges.iter().map(|it| EdgeDoc::from(&**it)).collect(),
            more: graph.more,
        },
        || record::FlowGraph {
            flow: shown(&caller, &graph.flow),
            members: shown(&caller, &graph.members),
            edges: graph.edges.clone(),
            more: graph.more,
        },
    ))
}

/// Get the result of a flow, or wait for it.
#[utoipa::path(
    get, path = "/v1/flows/{id}/result", tag = "flows", params(("id" = uuid::Uuid, Path), Waiting),
    responses((status = 200, description = "How it stands, with its result if it has ended", body = FlowResultDoc), Problems)
)]
pub async fn result(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<FlowId>,
    Query(waiting): Query<Waiting>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let flow = waited_for(&app, &caller, id, &waiting).await?;
    let ended = flow.live.end.is_some();
    let result = match ended && caller.sees_payloads() {
        true => Some(app.engine.flow_result(id).await?),
        false => None,
    };
    Ok(wants.answer(
        || FlowResultDoc {
            flow: FlowDoc::from(&*flow),
            ended,
            result: result.as_ref().and_then(|it| payload::split(it).0),
        },
        || record::PayloadRecord { payload: result.clone() },
    ))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EdgesOf {
    /// `in` or `out`; `in` if it is left out.
    pub direction: Option<String>,
    /// Edges after this number.
    pub after: Option<u64>,
    pub limit: Option<u32>,
}

/// List the edges of a node.
#[utoipa::path(
    get, path = "/v1/executions/{id}/edges", tag = "flows",
    params(("id" = uuid::Uuid, Path), EdgesOf),
    responses((status = 200, description = "A page of edges", body = EdgePageDoc), Problems)
)]
pub async fn edges(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(node): Path<ExecutionId>,
    Query(asked): Query<EdgesOf>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, node).await?;
    let direction = match asked.direction.as_deref() {
        None | Some("in") => Direction::In,
        Some("out") => Direction::Out,
        Some(_) => return Err(Problem::invalid("direction", "is neither in nor out").into()),
    };
    let page = app.engine.edges(node, direction, asked.after.unwrap_or(0), page_limit(asked.limit)?).await?;
    Ok(wants.answer(
        || EdgePageDoc {
            edges: page.edges.iter().map(|it| EdgeDoc::from(&**it)).collect(),
            next_after: page.next,
        },
        || record::Edges { edges: page.edges.clone(), next: page.next },
    ))
}

/// Get the edge between two nodes.
#[utoipa::path(
    get, path = "/v1/executions/{id}/edges/{downstream}", tag = "flows",
    params(("id" = uuid::Uuid, Path), ("downstream" = uuid::Uuid, Path)),
    responses((status = 200, description = "The edge", body = EdgeDoc), Problems)
)]
pub async fn edge(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path((upstream, downstream)): Path<(ExecutionId, ExecutionId)>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    app.check_execution(&caller, upstream).await?;
    let edge = app.engine.edge(EdgeKey { upstream, downstream }).await?;
    let edge = edge.ok_or_else(|| not_found("edge", format!("{upstream}/{downstream}")))?;
    Ok(wants.answer(|| EdgeDoc::from(&*edge), || record::EdgeRecord { edge: Some(edge.clone()) }))
}

/// The namespace in which a flow lives.
pub async fn namespace_of(app: &Shared, caller: &Caller, id: FlowId) -> Result<Namespace, Refusal> {
    Ok(app.flow(caller, id).await?.spec.namespace.clone())
}
