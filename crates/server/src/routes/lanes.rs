//! Lanes.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use ff_api::lane::{LaneChange, LaneDoc, LanesDoc};
use ff_api::record;
use ff_core::lane::Lane;
use ff_core::name::LaneName;

use super::reading::document;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants};
use crate::app::Shared;
use crate::body::{Body, Path};

/// List the lanes that differ from the defaults.
#[utoipa::path(
    get, path = "/v1/lanes", tag = "lanes",
    responses((status = 200, description = "The lanes", body = LanesDoc), Problems)
)]
pub async fn list(State(app): State<Shared>, caller: Caller, wants: Wants) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let (lanes, _) = app.engine.lanes_and_workers().await?;
    Ok(wants.answer(
        || LanesDoc { lanes: lanes.iter().map(|it| LaneDoc::from(&**it)).collect() },
        || record::Lanes { lanes: lanes.clone() },
    ))
}

/// Get a lane. Every name is one: a lane that nobody has changed has the defaults.
#[utoipa::path(
    get, path = "/v1/lanes/{lane}", tag = "lanes", params(("lane" = String, Path)),
    responses((status = 200, description = "The lane", body = LaneDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(lane): Path<String>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let name = LaneName::parse(&lane)?;
    let (lanes, _) = app.engine.lanes_and_workers().await?;
    let changed = lanes.into_iter().find(|it| it.name == name);
    let lane = changed.unwrap_or_else(|| Arc::new(Lane::default_of(name)));
    Ok(wants.answer(|| LaneDoc::from(&*lane), || record::Lanes { lanes: vec![lane.clone()] }))
}

/// Change a lane. When this is answered, it holds everywhere.
#[utoipa::path(
    patch, path = "/v1/lanes/{lane}", tag = "lanes", request_body = LaneChange,
    params(("lane" = String, Path)),
    responses((status = 200, description = "The lane", body = LaneDoc), Problems)
)]
pub async fn change(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(lane): Path<String>,
    Body(it): Body<LaneChange>,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    caller.may_everywhere()?;
    let actor = caller.actor(it.actor.as_deref());
    let reply = app.run(it.command(&lane, &actor)?).await?;
    Ok(wants.reply(&reply, document))
}
