//! Dead letters: rows that applications posted into the store and that could not become executions.

use axum::extract::State;
use axum::response::Response;
use ff_api::fields::Why;
use ff_api::inbox::{LetterDoc, LettersDoc};
use ff_api::record;
use ff_core::commands::{DropLetter, RepostLetter};
use ff_core::inbox::DeadLetter;
use ff_core::{Command, Namespace, PartitionId, Reply};
use serde::Deserialize;
use utoipa::IntoParams;

use super::attempts::hidden;
use super::page_limit;
use super::reading::Done;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::{Shared, not_found};
use crate::body::{Body, Path, Query};

/// One whose namespace cannot be read belongs to none, and is there for those who see all.
fn is_seen(caller: &Caller, letter: &DeadLetter) -> bool {
    let namespace = letter.posted.namespace.as_deref().map_or(Ok(Namespace::default()), Namespace::parse);
    caller.sees_all() || namespace.is_ok_and(|it| caller.sees(&it))
}

fn shown(caller: &Caller, mut letter: DeadLetter) -> DeadLetter {
    if !caller.sees_payloads() {
        letter.posted.input = hidden();
        // Whatever the application wrote there may be in it.
        letter.posted.options = None;
    }
    letter
}

async fn find(app: &Shared, caller: &Caller, number: u64) -> Result<(PartitionId, DeadLetter), Refusal> {
    let found = app.engine.dead_letter(number).await?.filter(|(_, letter)| is_seen(caller, letter));
    Ok(found.ok_or_else(|| not_found("dead letter", number.to_string()))?)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Letters {
    /// Those after this number.
    pub after: Option<u64>,
    /// How many at most; a page of large ones has fewer.
    pub limit: Option<u32>,
}

/// List dead letters in the order of their numbers.
#[utoipa::path(
    get, path = "/v1/dead-letters", tag = "inbox", params(Letters),
    responses((status = 200, description = "A page", body = LettersDoc), Problems)
)]
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Query(it): Query<Letters>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let limit = page_limit(it.limit)?;
    let page = app.engine.dead_letters(it.after.unwrap_or(0), limit).await?;
    let next_after = page.letters.last().map(|it| it.posted.number).filter(|_| page.more);
    let seen = page.letters.into_iter().filter(|it| is_seen(&caller, it)).map(|it| shown(&caller, it));
    let letters: Vec<DeadLetter> = seen.collect();
    Ok(wants.answer(
        || LettersDoc { dead_letters: letters.iter().map(LetterDoc::from).collect(), next_after },
        || record::Letters { letters: letters.clone(), next_after },
    ))
}

/// Get a dead letter.
#[utoipa::path(
    get, path = "/v1/dead-letters/{number}", tag = "inbox", params(("number" = u64, Path)),
    responses((status = 200, description = "The letter", body = LetterDoc), Problems)
)]
pub async fn get(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(number): Path<u64>,
) -> Result<Response, Refusal> {
    caller.may(May::Read)?;
    let (partition, letter) = find(&app, &caller, number).await?;
    let letter = shown(&caller, letter);
    Ok(wants.answer(
        || LetterDoc::from(&letter),
        || record::LetterRecord { partition: partition.0, letter: letter.clone() },
    ))
}

async fn decide(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    number: u64,
    command: impl FnOnce(PartitionId) -> Command,
) -> Result<Response, Refusal> {
    caller.may(May::Operate)?;
    let (partition, _) = find(app, caller, number).await?;
    let reply = app.run(command(partition)).await?;
    match &reply {
        Reply::Letter(_) => Ok(wants.answer(|| Done { done: true }, || reply.clone())),
        other => Err(odd_reply(other).into()),
    }
}

/// Put a dead letter back into the inbox, as it was posted.
#[utoipa::path(
    post, path = "/v1/dead-letters/{number}/repost", tag = "inbox", params(("number" = u64, Path)), request_body = Why,
    responses((status = 200, description = "It is decided anew", body = Done), Problems)
)]
pub async fn repost(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(number): Path<u64>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(why.actor.as_deref()).into();
    let cause = why.cause.unwrap_or_default().into();
    decide(&app, &caller, wants, number, |partition| RepostLetter { partition, number, actor, cause }.into())
        .await
}

/// Remove a dead letter for good.
#[utoipa::path(
    delete, path = "/v1/dead-letters/{number}", tag = "inbox", params(("number" = u64, Path)), request_body = Why,
    responses((status = 200, description = "It is gone", body = Done), Problems)
)]
pub async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(number): Path<u64>,
    Body(why): Body<Why>,
) -> Result<Response, Refusal> {
    let actor = caller.actor(why.actor.as_deref()).into();
    let cause = why.cause.unwrap_or_default().into();
    decide(&app, &caller, wants, number, |partition| DropLetter { partition, number, actor, cause }.into())
        .await
}
