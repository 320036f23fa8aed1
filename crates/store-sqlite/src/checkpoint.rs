//! Moving the log into the file, beside the writer.
//!
//! A checkpoint of a long log takes tens of milliseconds. A thread of its own makes it while commits go on;
//! the writer then moves the little that was added meanwhile, and its next transaction starts the log anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Hot pages are written to the log many times and moved once, so a long log is cheaper. This is 16 MiB;
/// shorter ones were measured to be slower, longer ones not to be faster.
const PAGES: u32 = 4_096;

#[derive(Debug)]
pub(crate) struct Checkpointer {
    nudges: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    busy: Arc<AtomicBool>,
    /// The thread was asked and the writer has not yet moved the rest.
    asked: bool,
    /// How long the log is when the next move starts.
    move_at: u32,
}

impl Checkpointer {
    pub(crate) fn start(file: PathBuf, conn: Connection) -> std::io::Result<Checkpointer> {
        let (nudges, nudged) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let flag = busy.clone();
        let run = move || serve(&file, &conn, &nudged, &flag);
        let thread = std::thread::Builder::new().name("sqlite checkpoint".into()).spawn(run)?;
        Ok(Checkpointer { nudges: Some(nudges), thread: Some(thread), busy, asked: false, move_at: PAGES })
    }

    /// Called by the writer between two transactions with the length of the log, which may have started anew.
    /// Returns whether the writer should move the rest now.
    pub(crate) fn notice(&mut self, pages: u32, anew: bool) -> bool {
        if anew {
            (self.asked, self.move_at) = (false, PAGES);
        }
        if self.asked {
            if self.busy.load(Ordering::Acquire) {
                return false;
            }
            // If a reader keeps the log from starting anew, try again only when it is longer still.
            (self.asked, self.move_at) = (false, pages.saturating_add(PAGES));
            return true;
        }
        if pages >= self.move_at && !self.busy.swap(true, Ordering::AcqRel) {
            self.asked = true;
            if let Some(nudges) = &self.nudges {
                let _ = nudges.try_send(());
            }
        }
        false
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.nudges.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(file: &std::path::Path, conn: &Connection, nudged: &Receiver<()>, busy: &AtomicBool) {
    while nudged.recv().is_ok() {
        run(file, conn);
        busy.store(false, Ordering::Release);
    }
}

/// Moves what no reader needs any more; waits for nobody.
pub(crate) fn run(file: &std::path::Path, conn: &Connection) {
    if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        tracing::warn!(file = %file.display(), %error, "the log could not be moved into the file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpointer without a thread; `busy` is set by hand.
    fn alone() -> Checkpointer {
        Checkpointer { nudges: None, thread: None, busy: Arc::default(), asked: false, move_at: PAGES }
    }

    #[test]
    fn the_writer_moves_the_rest_once_after_the_thread_is_done() {
        let mut it = alone();
        assert!(!it.notice(PAGES - 1, false));
        assert!(!it.asked);
        assert!(!it.notice(PAGES, false));
        assert!(it.asked);
        assert!(!it.notice(PAGES + 10, false), "the thread is at work");
        it.busy.store(false, Ordering::Release);
        assert!(it.notice(PAGES + 20, false));
        assert!(!it.notice(PAGES + 30, false), "a reader holds the log; no hurry");
        assert_eq!(it.move_at, 2 * PAGES + 20);
        assert!(!it.notice(5, true));
        assert_eq!(it.move_at, PAGES);
    }
}
