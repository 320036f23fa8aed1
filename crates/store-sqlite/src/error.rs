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

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn every_cause_says_whether_trying_again_helps_and_names_the_file() {
        let file = Path::new("/data/a.db");
        let cases = [
            (ffi::SQLITE_BUSY, "unavailable", "unavailable", "locked"),
            (ffi::SQLITE_FULL, "unavailable", "unavailable", "full"),
            (ffi::SQLITE_READONLY, "unavailable", "unusable", "write permission"),
            (ffi::SQLITE_CANTOPEN, "unavailable", "unusable", "folder"),
            (ffi::SQLITE_IOERR_FSYNC, "unavailable", "unavailable", "disk"),
            (ffi::SQLITE_NOTADB, "unusable", "unusable", "not an SQLite database"),
            (ffi::SQLITE_CORRUPT, "unusable", "unusable", "backup"),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, "refused", "refused", "refused a record"),
        ];
        let word = |error: &StoreError| match error {
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Refused(_) => "refused",
            StoreError::Unusable(_) => "unusable",
        };
        for (code, at_work, at_opening, text) in cases {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let (work, opening) = (explain(file, &error), explain_opening(file, &error));
            assert_eq!((word(&work), word(&opening)), (at_work, at_opening), "{code}");
            assert!(work.to_string().contains(text) && work.to_string().contains("/data/a.db"), "{work}");
        }
    }
}
