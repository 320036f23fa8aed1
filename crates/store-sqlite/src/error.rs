//! What operators read when something is wrong: the file, the cause, and what to do.

use std::path::Path;

use ff_core::PartitionId;
use ff_store::StoreError;
use rusqlite::ErrorCode;

/// Says in words what SQLite says in numbers.
pub(crate) fn explain(file: &Path, error: &rusqlite::Error) -> StoreError {
    let file = file.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
            "{file} is locked: another process has been writing for longer than the busy timeout; nothing was \
             written, and it works again when that process lets go"
        )),
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(format!(
            "{file} cannot grow: its disk or its size limit is full; nothing was written, and it works again \
             when there is room"
        )),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::Unavailable(format!(
            "{file} cannot be written: give this process write permission on the file and its folder, or mount \
             the disk writable"
        )),
        Some(ErrorCode::CannotOpen) => StoreError::Unavailable(format!(
            "{file} cannot be opened: check that its folder exists and that this process may write in it"
        )),
        Some(ErrorCode::NotADatabase) => StoreError::Unusable(format!(
            "{file} is not an SQLite database: give the path of a FlowFabric file or of a file that does not \
             exist yet"
        )),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Unusable(format!(
            "{file} is damaged ({error}): stop every process that uses it, keep a copy, and restore a backup"
        )),
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable(format!(
            "reading or writing {file} failed ({error}): check the disk; it works again when the disk does"
        )),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
            StoreError::Refused(format!("{file} refused a record: {error}"))
        }
        Some(ErrorCode::OutOfMemory) => StoreError::Unavailable(format!("{file}: out of memory")),
        _ => StoreError::Unavailable(format!("{file}: {error}")),
    }
}

/// The same at opening, where what cannot be reached has to be put right first.
pub(crate) fn explain_opening(file: &Path, error: &rusqlite::Error) -> StoreError {
    match (error.sqlite_error_code(), explain(file, error)) {
        (
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen),
            StoreError::Unavailable(text),
        ) => StoreError::Unusable(text),
        (_, error) => error,
    }
}

/// Whether the record itself is at fault, so that others in the same transaction can still be written.
pub(crate) fn is_refusal(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{StatementChangedRows, ToSqlConversionFailure};
    matches!(error, StatementChangedRows(_) | ToSqlConversionFailure(_))
        || matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
        )
}

/// A row that is there but does not mean anything.
pub(crate) fn unreadable(file: &Path, what: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!(
        "{} holds a record that cannot be read ({what}: {why}): restore a backup",
        file.display()
    ))
}

pub(crate) fn closed(file: &Path) -> StoreError {
    StoreError::Unavailable(format!("{} was closed by this process", file.display()))
}

pub(crate) fn no_partition(file: &Path, partition: PartitionId, count: u16) -> StoreError {
    let last = count.saturating_sub(1);
    StoreError::Refused(format!("{} has no partition {partition}; it has 0 to {last}", file.display()))
}
