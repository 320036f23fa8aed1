//! Rows back into records.

use std::sync::Arc;

use ff_core::agenda::Subject;
use ff_core::class::Class;
use ff_core::execution::{Execution, Live, Spec};
use ff_core::{ExecutionId, FlowId, InstanceId, LaneName, PartitionId};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum ReadError {
    Postgres(tokio_postgres::Error),
    /// A row is there but does not mean anything.
    Unreadable(&'static str, String),
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        ReadError::Postgres(error)
    }
}

pub(crate) type Read<T> = Result<T, ReadError>;

pub(crate) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Read<T> {
    Ok(row.try_get(at)?)
}

/// A column that counts something; nothing is zero.
pub(crate) fn count(row: &Row, at: usize) -> Read<u64> {
    let found: Option<i64> = column(row, at)?;
    Ok(found.and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
}

pub(crate) fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Read<T> {
    serde_json::from_str(text).map_err(|error| ReadError::Unreadable(what, error.to_string()))
}

pub(crate) fn execution(id: Uuid, spec: &str, live: &str) -> Read<Arc<Execution>> {
    let (spec, live): (Spec, Live) = (json("spec", spec)?, json("live", live)?);
    Ok(Arc::new(Execution { id: ExecutionId(id), spec: Arc::new(spec), live }))
}

pub(crate) fn lane(text: &str) -> Read<LaneName> {
    LaneName::parse(text).map_err(|error| ReadError::Unreadable("lane", error.to_string()))
}

pub(crate) fn class(text: &str) -> Read<Class> {
    text.parse()
        .map_err(|error: ff_core::rejection::Invalid| ReadError::Unreadable("class", error.to_string()))
}

/// Reads back what [`subject_id`](crate::columns::subject_id) made of a subject.
pub(crate) fn subject(kind: &str, id: Uuid) -> Read<Subject> {
    Ok(match kind {
        "timer" => Subject::Timer(ExecutionId(id)),
        "worker_timer" => Subject::WorkerTimer(InstanceId(id)),
        "worker_leases" => Subject::WorkerLeases(InstanceId(id)),
        "sweep" => Subject::Sweep,
        "cascade" => Subject::Cascade(ExecutionId(id)),
        "members" => Subject::Members(FlowId(id)),
        "children" => Subject::Children(ExecutionId(id)),
        "frames" => Subject::Frames(ExecutionId(id)),
        "deliver" => {
            let (to, number) = id.as_u64_pair();
            let to = u16::try_from(to).map_err(|error| ReadError::Unreadable("agenda", error.to_string()))?;
            Subject::Deliver { to: PartitionId(to), number }
        }
        _ => return Err(ReadError::Unreadable("agenda", format!("a subject of kind {kind}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::subject_id;
    use ff_core::Route;

    #[test]
    fn subjects_read_back() {
        for subject in [
            Subject::Timer(ExecutionId::from_parts(1, Route(2), 3)),
            Subject::WorkerTimer(InstanceId::from_parts(4, Route(5), 6)),
            Subject::WorkerLeases(InstanceId::from_parts(4, Route(5), 6)),
            Subject::Sweep,
            Subject::Cascade(ExecutionId::from_parts(1, Route(2), 3)),
            Subject::Members(FlowId::from_parts(4, Route(5), 6)),
            Subject::Children(ExecutionId::from_parts(1, Route(2), 3)),
            Subject::Frames(ExecutionId::from_parts(1, Route(2), 3)),
            Subject::Deliver { to: PartitionId(65_000), number: u64::MAX },
        ] {
            assert_eq!(super::subject(subject.kind(), subject_id(&subject)).unwrap(), subject);
        }
    }
}
