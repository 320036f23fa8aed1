//! The threads that read, each with a connection and statements of its own.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ff_store::{Soon, StoreError};
use rusqlite::{Connection, Statement};
use tokio::sync::oneshot;

use crate::error::{closed, explain, unreadable};
use crate::records::{Read, ReadError};
use crate::sql::read;
use crate::status::Seen;

macro_rules! statements {
    ($($name:ident)+) => {
        /// Everything that can be asked, prepared.
        #[derive(Debug)]
        pub(crate) struct Statements<'c> { $(pub(crate) $name: Statement<'c>),+ }

        impl<'c> Statements<'c> {
            fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Statements { $($name: conn.prepare(read::$name)?),+ })
            }
        }
    };
}

statements!(
    agenda attempts commit_id commits_after counts dead_letters dedup dedup_expired edge edges_from_upstreams
    edges_to_downstreams ended events_at_or_after events_from execution executions_newest_first
    executions_oldest_first flow flows_ended flows_newest_first flows_oldest_first frames_newest_first
    frames_oldest_first has_posted inbox lane lanes leases links members members_newest_first
    members_oldest_first message newest_commit newest_execution next_due next_removal oldest_event orphans payload ready ready_counts
    record records signal signing_key signing_keys steps stream waitpoints_newest_first waitpoints_oldest_first worker workers
);

/// One reading thread's tools.
#[derive(Debug)]
pub(crate) struct Reads<'c> {
    pub(crate) sql: Statements<'c>,
    pub(crate) data_version: Statement<'c>,
    pub(crate) seen: Option<Seen>,
    begin: Statement<'c>,
    end: Statement<'c>,
}

impl<'c> Reads<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Reads {
            sql: Statements::prepare(conn)?,
            data_version: conn.prepare("PRAGMA data_version")?,
            seen: None,
            begin: conn.prepare("BEGIN")?,
            end: conn.prepare("COMMIT")?,
        })
    }

    /// Reads everything inside at one version of the file.
    pub(crate) fn at_one_version<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.begin.execute([])?;
        let answer = read(self);
        self.end.execute([])?;
        answer
    }
}

type Question = Box<dyn for<'c> FnOnce(&mut Reads<'c>) + Send>;

enum Job {
    Ask(Question),
    Stop,
}

/// Threads that share one queue of questions.
#[derive(Debug)]
pub(crate) struct Readers {
    file: PathBuf,
    questions: Sender<Job>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(
        file: &Path,
        count: usize,
        connect: impl Fn() -> rusqlite::Result<Connection>,
    ) -> Result<Readers, StoreError> {
        let (questions, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = Vec::new();
        for _ in 0..count.max(1) {
            let conn = connect().map_err(|error| explain(file, &error))?;
            let waiting = waiting.clone();
            let (started, start) = channel();
            let run = move || match Reads::prepare(&conn) {
                Ok(mut reads) => {
                    let _ = started.send(Ok(()));
                    serve(&mut reads, &waiting);
                }
                Err(error) => drop(started.send(Err(error))),
            };
            let thread = std::thread::Builder::new().name("sqlite reader".into()).spawn(run);
            threads.push(thread.map_err(|error| {
                StoreError::Unavailable(format!("{}: no thread to read with: {error}", file.display()))
            })?);
            match start.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(explain(file, &error)),
                Err(_) => return Err(closed(file)),
            }
        }
        Ok(Readers { file: file.to_owned(), questions, threads: Mutex::new(threads) })
    }

    /// Hands a question to the next free thread.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl for<'c> FnOnce(&mut Reads<'c>) -> Read<T> + Send + 'static,
    ) -> Soon<'_, Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let run: Question = Box::new(move |reads| drop(reply.send(question(reads))));
        let sent = self.questions.send(Job::Ask(run));
        Box::pin(async move {
            sent.map_err(|_| closed(&self.file))?;
            match answer.await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(ReadError::Sqlite(error))) => Err(explain(&self.file, &error)),
                Ok(Err(ReadError::Unreadable(what, why))) => Err(unreadable(&self.file, what, why)),
                Err(_) => Err(closed(&self.file)),
            }
        })
    }

    pub(crate) fn stop(&self) {
        let Ok(mut threads) = self.threads.lock() else { return };
        for _ in threads.iter() {
            let _ = self.questions.send(Job::Stop);
        }
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(reads: &mut Reads<'_>, waiting: &Mutex<Receiver<Job>>) {
    loop {
        // Only one thread waits on the queue; the others wait for it.
        let job = match waiting.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        match job {
            Ok(Job::Ask(question)) => question(reads),
            Ok(Job::Stop) | Err(_) => return,
        }
    }
}
