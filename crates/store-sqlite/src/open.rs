//! Opening a file: where it is, whose it is, and the settings of its connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_store::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionState};

use crate::error::explain_opening;
use crate::options::Options;
use crate::presence::LockFolder;
use crate::schema::{self, Identity};

/// The unit of everything that is written. A commit of one execution touches about ten pages, so a small page
/// keeps the log small; 8 and 16 KiB write more of it and are not faster in large batches.
pub(crate) const PAGE_BYTES: u64 = 4_096;
/// The writer keeps the hot ends of all trees in memory.
const WRITER_CACHE_KIB: i64 = 64 * 1_024;
const READER_CACHE_KIB: i64 = 8 * 1_024;
/// The log is cut back to this size when it starts anew.
const WAL_KEPT_BYTES: i64 = 64 << 20;

/// A file that has been checked, with the connection that will write to it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: PathBuf,
    pub(crate) locks: LockFolder,
    pub(crate) identity: Identity,
    pub(crate) writer: Connection,
    /// How many pages the log held after the newest commit of the writer.
    pub(crate) wal_pages: Arc<AtomicU32>,
}

pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, StoreError> {
    let file = locate(path)?;
    let explain = |error| explain_opening(&file, &error);
    if file.exists() {
        // Before anything is written to it or beside it.
        let conn = connect(&file, options).map_err(explain)?;
        schema::check_owner(&file, &conn)?;
        if conn.is_readonly("main").map_err(explain)? {
            return Err(read_only(&file));
        }
    }
    let locks = LockFolder::beside(&file)?;
    // Two processes that open a new file at once take turns here; SQLite does not wait for the change to WAL.
    let turn = locks.turn()?;
    let mut writer = connect(&file, options).map_err(explain)?;
    schema::check_owner(&file, &writer)?;
    let wal_pages = settle_writer(&mut writer, options).map_err(explain)?;
    schema::migrate(&mut writer, options.partitions.unwrap_or(1)).map_err(explain)?;
    drop(turn);
    let identity = schema::identity(&writer).map_err(explain)?;
    check_partitions(&file, options, identity)?;
    if let Some(bytes) = options.bytes_max {
        let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX);
        writer.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(explain)?;
    }
    Ok(Opened { file, locks, identity, writer, wal_pages })
}

fn check_partitions(file: &Path, options: &Options, identity: Identity) -> Result<(), StoreError> {
    match options.partitions {
        Some(asked) if asked != identity.partitions => Err(StoreError::Unusable(format!(
            "{} was made with {} partitions and cannot be opened with {asked}: leave the number out, or start a \
             new file",
            file.display(),
            identity.partitions
        ))),
        _ => Ok(()),
    }
}

/// One name for one file, whatever way it is reached, because the locks beside it are found by name.
fn locate(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(file) = path.canonicalize() {
        return Ok(file);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => Ok(folder.join(name)),
        _ => Err(StoreError::Unusable(format!(
            "{} cannot be opened: its folder does not exist; create {} first",
            path.display(),
            folder.display()
        ))),
    }
}

fn read_only(file: &Path) -> StoreError {
    StoreError::Unusable(format!(
        "{} cannot be written: give this process write permission on the file and its folder",
        file.display()
    ))
}

/// A connection with what all of ours have in common.
pub(crate) fn connect(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    debug_assert_eq!(conn.transaction_state(None::<&str>)?, TransactionState::None);
    Ok(conn)
}

pub(crate) fn connect_reader(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let conn = connect(file, options)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(conn)
}

/// A checkpoint flushes as its own connection says, so it must say the same as the writer's.
pub(crate) fn connect_checkpointer(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let conn = connect(file, options)?;
    conn.pragma_update(None, "synchronous", options.synchronous.word())?;
    Ok(conn)
}

fn settle_writer(conn: &mut Connection, options: &Options) -> rusqlite::Result<Arc<AtomicU32>> {
    conn.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", options.synchronous.word())?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    conn.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT_BYTES, |_| Ok(()))?;
    // The hook takes the place of SQLite's own checkpoints; ours are made beside the writer.
    let pages = Arc::new(AtomicU32::new(0));
    let seen = pages.clone();
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
        seen.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}
