//! A copy of a store that is in use.

use std::path::{Path, PathBuf};

use ff_store::StoreError;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::explain;

/// Copies everything at one version into a new file. Writers go on meanwhile.
pub(crate) fn backup(source: &Connection, file: &Path, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(taken(to));
    }
    let partial = with_suffix(to, ".partial");
    // What an earlier copy left behind when it was interrupted.
    let _ = std::fs::remove_file(&partial);
    let copied = copy(source, file, &partial).and_then(|()| publish(&partial, to));
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied
}

fn copy(source: &Connection, file: &Path, partial: &Path) -> Result<(), StoreError> {
    let mut target = Connection::open(partial).map_err(|error| explain(partial, &error))?;
    let copy = Backup::new(source, &mut target).map_err(|error| explain(file, &error))?;
    // All pages in one step: SQLite starts over when the file changes between two steps.
    match copy.step(-1).map_err(|error| explain(partial, &error))? {
        StepResult::Done => Ok(()),
        _ => Err(StoreError::Unavailable(format!(
            "{} is locked; nothing was copied, try again",
            file.display()
        ))),
    }
}

/// Gives the finished copy its name, unless somebody else has taken the name meanwhile.
fn publish(partial: &Path, to: &Path) -> Result<(), StoreError> {
    match std::fs::hard_link(partial, to) {
        Ok(()) => {
            let _ = std::fs::remove_file(partial);
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(taken(to)),
        // Some file systems have no links.
        Err(_) if to.exists() => Err(taken(to)),
        Err(_) => std::fs::rename(partial, to).map_err(|error| {
            StoreError::Unavailable(format!("the copy cannot be named {}: {error}", to.display()))
        }),
    }
}

fn taken(to: &Path) -> StoreError {
    StoreError::Refused(format!(
        "{} exists already; a backup never overwrites: choose another name",
        to.display()
    ))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
