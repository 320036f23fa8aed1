//! Namespaces.

use axum::extract::State;
use axum::response::Response;
use ff_api::namespace::{NamespaceDoc, NamespacesDoc};
use ff_core::name::Namespace;

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::Path;

/// List the namespaces that have executions.
#[utoipa::path(
    get, path = "/v1/namespaces", tag = "namespaces",
    responses((status = 200, description = "The namespaces", body = NamespacesDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller, wants: Wants) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let found = seen(&app, &caller).await?;
    Ok(wants.answer(|| found.clone(), || found.clone()))
}

/// Get a namespace. Every name is one: in a namespace that nobody has used is nothing.
#[utoipa::path(
    get, path = "/v1/namespaces/{namespace}", tag = "namespaces", params(("namespace" = String, Path)),
    responses((status = 200, description = "The namespace", body = NamespaceDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(namespace): Path<String>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let name = Namespace::parse(&namespace)?;
    caller.may_in(&name)?;
    let used = seen(&app, &caller).await?.namespaces.into_iter().find(|it| it.name == name.as_str());
    let found = used.unwrap_or_else(|| NamespaceDoc::empty(&name));
    Ok(wants.answer(|| found.clone(), || found.clone()))
}

async fn seen(app: &Shared, caller: &Caller) -> Result<NamespacesDoc, Refusal> {
    let mut counts = app.engine.counts().await?;
    counts.retain(|(key, _)| caller.sees(&key.namespace));
    Ok(NamespacesDoc::of(&counts))
}
