//! What operators read when something is wrong: the database, the cause, and what to do.

use ff_core::PartitionId;
use ff_store::{Outcome, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The error that the commit function raises when decision and store disagree.
const DISAGREE: &str = "FF001";

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Says in words what PostgreSQL says in codes. In every case nothing was written, except where
/// [`outcome`] says otherwise.
pub(crate) fn explain(place: &str, error: &Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable(format!(
            "{place} is out of reach ({}): check that the server runs and that host and port are right; it is \
             tried again",
            chain(error)
        ));
    };
    let message = db.message();
    let code = db.code();
    let unavailable = |text: &str| StoreError::Unavailable(format!("{place}: {message}: {text}"));
    let unusable = |text: &str| StoreError::Unusable(format!("{place}: {message}: {text}"));
    match code.code() {
        "28P01" | "28000" => {
            unusable("check user and password in the address, and pg_hba.conf on the server")
        }
        "3D000" => unusable("create the database first, with createdb, or give the name of one that exists"),
        "42501" => unusable(
            "this role lacks rights: let the owner of the database run `flowfabric store migrate` and grant what \
             docs/postgres.md lists",
        ),
        "25006" => unavailable(
            "this server is read-only (a standby): give the address of the primary, or of all servers with \
             target_session_attrs=read-write",
        ),
        "53300" => unavailable("the server has no free connection: raise max_connections or use PgBouncer"),
        "53100" => unavailable("its disk is full; it works again when there is room"),
        "57014" => {
            unavailable("the statement was cancelled or ran into statement_timeout; it is tried again")
        }
        "40001" | "40P01" | "55P03" => unavailable("another transaction was in the way; it is tried again"),
        "42883" | "42P01" | "3F000" => {
            unusable("the schema is not there or incomplete: run `flowfabric store migrate`")
        }
        DISAGREE => StoreError::Refused(format!("{place}: {message}")),
        _ => match code.code().get(..2).unwrap_or_default() {
            // Data, constraints, limits of the program: the same again would be refused again.
            "22" | "23" | "54" => StoreError::Refused(format!("{place} refused a record: {message}")),
            "08" | "53" | "57" | "58" | "XX" => unavailable("it is tried again"),
            _ => StoreError::Unavailable(format!("{place}: {message} ({}); it is tried again", code.code())),
        },
    }
}

/// What became of a commit that was sent and failed.
pub(crate) fn outcome(place: &str, error: &Error) -> Outcome {
    match error.code() {
        // The server was stopped around it, or the connection went away: it may have happened.
        None => Outcome::Unknown(format!("{place}: {}", chain(error))),
        Some(code) if is_ending(code) => Outcome::Unknown(format!("{place}: {}", chain(error))),
        Some(_) => match explain(place, error) {
            // At work, what cannot be used now may be put right while the engine waits.
            StoreError::Unusable(text) => Outcome::Failed(StoreError::Unavailable(text)),
            error => Outcome::Failed(error),
        },
    }
}

/// Whether the server ended the connection, and with it perhaps a statement that was done.
fn is_ending(code: &SqlState) -> bool {
    matches!(code.code(), "57P01" | "57P02" | "57P03" | "57P05") || code.code().starts_with("08")
}

pub(crate) fn unreadable(place: &str, what: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!(
        "{place} holds a record that cannot be read ({what}: {why}): restore a backup"
    ))
}

pub(crate) fn closed(place: &str) -> StoreError {
    StoreError::Unavailable(format!("{place} was closed by this process"))
}

pub(crate) fn no_partition(place: &str, partition: PartitionId, count: u16) -> StoreError {
    let last = count.saturating_sub(1);
    StoreError::Refused(format!("{place} has no partition {partition}; it has 0 to {last}"))
}
