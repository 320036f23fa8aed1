//! The bare client: what PostgreSQL itself can do with the same rows in the same calls.
//!
//! Recorded commits are first turned into bytes on their way to the server, untimed. Then a client that knows
//! nothing of commits sends exactly those bytes, timed: nothing is encoded, nothing is decided, nobody is
//! answered.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use ff_store::{Commit, StoreError};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use tokio_postgres::Client;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::address::Address;
use crate::columns::{Columns, Param};
use crate::error::explain;
use crate::link::Place;
use crate::writer::{CALL, shares};

/// How many calls are on their way on one connection at once.
const AHEAD: usize = 4;

/// An argument as it goes over the wire.
#[derive(Debug)]
struct Wire(Option<BytesMut>);

impl ToSql for Wire {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// One call, ready to be sent.
#[derive(Debug)]
struct Call {
    arguments: Vec<(Wire, Type)>,
    rows: u64,
}

/// Writes recorded groups of commits again into an empty store: first those of `before`, then, timed, those of
/// `recorded`. Returns how many records the timed ones were and how long they took.
///
/// # Errors
/// The database cannot be reached, or refuses a call.
pub async fn replay(
    address: Address,
    writers: usize,
    before: Vec<Vec<Commit>>,
    recorded: Vec<Vec<Commit>>,
) -> Result<(u64, Duration), StoreError> {
    let place = Place::new(address)?;
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(place.connect().await?);
    }
    run(&place, &clients, encode(before, writers)?).await?;
    let calls = encode(recorded, writers)?;
    let rows = calls.iter().flatten().map(|call| call.rows).sum();
    let started = Instant::now();
    run(&place, &clients, calls).await?;
    Ok((rows, started.elapsed()))
}

/// The calls of each connection, in order.
fn encode(groups: Vec<Vec<Commit>>, writers: usize) -> Result<Vec<Vec<Call>>, StoreError> {
    let mut calls: Vec<Vec<Call>> = (0..writers).map(|_| Vec::new()).collect();
    for group in groups {
        for (_, commits) in shares(group.into_iter().enumerate(), writers) {
            let share = usize::from(commits[0].partition.0) % writers;
            let refused = |error: &dyn std::fmt::Display| StoreError::Refused(error.to_string());
            let columns = Columns::of(&commits).map_err(|error| refused(&error))?;
            let (now, by) = (None::<i64>, commits[0].by.0);
            let mut params: Vec<Param<'_>> = vec![(&now, Type::INT8), (&by, Type::UUID)];
            params.extend(columns.params());
            let mut arguments = Vec::with_capacity(params.len());
            for (value, kind) in params {
                let mut bytes = BytesMut::new();
                let wire = match value.to_sql_checked(&kind, &mut bytes).map_err(|error| refused(&error))? {
                    IsNull::No => Wire(Some(bytes)),
                    IsNull::Yes => Wire(None),
                };
                arguments.push((wire, kind));
            }
            let rows = commits.iter().map(|commit| commit.changes.rows() as u64).sum();
            calls[share].push(Call { arguments, rows });
        }
    }
    Ok(calls)
}

async fn run(place: &Place, clients: &[Client], calls: Vec<Vec<Call>>) -> Result<(), StoreError> {
    let lines = clients.iter().zip(&calls).map(|(client, calls)| line(place, client, calls));
    for done in futures_util::future::join_all(lines).await {
        done?;
    }
    Ok(())
}

async fn line(place: &Place, client: &Client, calls: &[Call]) -> Result<(), StoreError> {
    let mut sent = FuturesOrdered::new();
    for call in calls {
        sent.push_back(async move {
            let params: Vec<Param<'_>> = call
                .arguments
                .iter()
                .map(|(wire, kind)| (wire as &(dyn ToSql + Sync), kind.clone()))
                .collect();
            client.query_typed_one(&CALL, &params).await
        });
        if sent.len() >= AHEAD
            && let Some(done) = sent.next().await
        {
            check(place, done)?;
        }
    }
    while let Some(done) = sent.next().await {
        check(place, done)?;
    }
    Ok(())
}

fn check(place: &Place, done: Result<tokio_postgres::Row, tokio_postgres::Error>) -> Result<(), StoreError> {
    let row = done.map_err(|error| explain(place.shown(), &error))?;
    match row.get::<_, Vec<i32>>(0).is_empty() {
        false => Ok(()),
        true => Err(StoreError::Refused("a replayed commit met another version".to_owned())),
    }
}
