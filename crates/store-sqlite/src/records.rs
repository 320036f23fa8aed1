//! Rows back into records.

use std::sync::Arc;

use ff_core::agenda::Subject;
use ff_core::class::Class;
use ff_core::execution::{Execution, Live, Spec};
use ff_core::{CommitId, ExecutionId, FlowId, InstanceId, LaneName};
use ff_store::Version;
use rusqlite::Row;
use rusqlite::types::{FromSqlError, ValueRef};
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum ReadError {
    Sqlite(rusqlite::Error),
    /// A row is there but does not mean anything.
    Unreadable(&'static str, String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        ReadError::Sqlite(error)
    }
}

impl From<FromSqlError> for ReadError {
    fn from(error: FromSqlError) -> Self {
        ReadError::Unreadable("column", error.to_string())
    }
}

pub(crate) type Read<T> = Result<T, ReadError>;

pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(column)?))
}

pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> Read<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

pub(crate) fn json<T: DeserializeOwned>(what: &'static str, row: &Row<'_>, column: usize) -> Read<T> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    serde_json::from_slice(bytes).map_err(|error| ReadError::Unreadable(what, error.to_string()))
}

/// From the first two columns.
pub(crate) fn version(row: &Row<'_>) -> rusqlite::Result<Version> {
    Ok(Version { number: count(row, 0)?, id: CommitId(id(row, 1)?) })
}

/// From two columns that follow each other.
pub(crate) fn execution(id: ExecutionId, row: &Row<'_>, spec: usize) -> Read<Execution> {
    let live: Live = json("live", row, spec + 1)?;
    let spec: Spec = json("spec", row, spec)?;
    Ok(Execution { id, spec: Arc::new(spec), live })
}

pub(crate) fn lane(row: &Row<'_>, column: usize) -> Read<LaneName> {
    let text = text(row, column)?;
    LaneName::parse(text).map_err(|error| ReadError::Unreadable("lane", error.to_string()))
}

pub(crate) fn class(row: &Row<'_>, column: usize) -> Read<Class> {
    let text = text(row, column)?;
    text.parse()
        .map_err(|error: ff_core::rejection::Invalid| ReadError::Unreadable("class", error.to_string()))
}

pub(crate) fn subject(row: &Row<'_>, kind: usize, subject: usize) -> Read<Subject> {
    let kind = text(row, kind)?;
    let found = match (kind, row.get_ref(subject)?) {
        ("timer", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::Timer(ExecutionId(id)))
        }
        ("cascade", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::Cascade(ExecutionId(id)))
        }
        ("children", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::Children(ExecutionId(id)))
        }
        ("frames", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::Frames(ExecutionId(id)))
        }
        ("members", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::Members(FlowId(id)))
        }
        ("worker_timer", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::WorkerTimer(InstanceId(id)))
        }
        ("worker_leases", ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).ok().map(|id| Subject::WorkerLeases(InstanceId(id)))
        }
        (kind, ValueRef::Text(text)) => {
            std::str::from_utf8(text).ok().and_then(|text| Subject::from_text(kind, text))
        }
        _ => None,
    };
    found.ok_or_else(|| ReadError::Unreadable("agenda", format!("a subject of kind {kind}")))
}
