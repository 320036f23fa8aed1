//! Group commit: the one thread that writes.
//!
//! It takes every commit that is waiting, applies them in one transaction in the order in which they came,
//! and answers all of them after the flush. While it flushes, the next ones gather; nobody waits for a timer.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ff_core::{Ms, PartitionId, ServerId};
use ff_store::{Clock, Commit, Outcome, StoreError, Version};
use rusqlite::{Connection, Statement};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::apply::Apply;
use crate::checkpoint::{self, Checkpointer};
use crate::error::{closed, explain, is_refusal, no_partition};
use crate::open::PAGE_BYTES;
use crate::stats::{Counters, add};

/// One transaction takes no more than about so many records, so that the first caller does not wait for all.
const ROWS_MAX: usize = 16_384;
/// What each page in the log carries besides.
const FRAME_HEADER_BYTES: u64 = 24;

/// Something to do for the writer.
pub(crate) enum Job {
    Commit(Request),
    Turn(TurnRequest),
    Stop,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Job::Commit(_) => "Commit",
            Job::Turn(_) => "Turn",
            Job::Stop => "Stop",
        })
    }
}

pub(crate) struct Request {
    pub(crate) commits: Vec<Commit>,
    pub(crate) reply: oneshot::Sender<Vec<Outcome>>,
}

/// Somebody asks for the turn of a partition.
pub(crate) struct TurnRequest {
    pub(crate) partition: PartitionId,
    pub(crate) server: ServerId,
    pub(crate) for_ms: Ms,
    pub(crate) reply: oneshot::Sender<Result<bool, StoreError>>,
}

/// What the thread knows of its store.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) file: PathBuf,
    pub(crate) partitions: u16,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) wal_pages: Arc<AtomicU32>,
}

/// The handle of the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(
        conn: Connection,
        checkpoints: Connection,
        around: Surroundings,
    ) -> Result<Writer, StoreError> {
        let (jobs, waiting) = channel();
        let (started, start) = channel();
        let file = around.file.clone();
        let no_thread = |error: std::io::Error| {
            StoreError::Unavailable(format!("{}: no thread to write with: {error}", file.display()))
        };
        let checkpointer = Checkpointer::start(file.clone(), checkpoints).map_err(no_thread)?;
        let run = move || match Group::prepare(&conn, around, checkpointer) {
            Ok(mut group) => {
                let _ = started.send(Ok(()));
                group.run(&conn, &waiting);
            }
            Err(error) => drop(started.send(Err(error))),
        };
        let thread =
            std::thread::Builder::new().name("sqlite writer".into()).spawn(run).map_err(no_thread)?;
        match start.recv() {
            Ok(Ok(())) => Ok(Writer { jobs, thread: Mutex::new(Some(thread)) }),
            Ok(Err(error)) => Err(explain(&file, &error)),
            Err(_) => Err(closed(&file)),
        }
    }

    /// Puts a job in the queue, in the order of calls. Gives it back if the writer has ended.
    pub(crate) fn send(&self, job: Job) -> Result<(), Box<Job>> {
        self.jobs.send(job).map_err(|refused| Box::new(refused.0))
    }

    /// Lets it finish what is queued and waits for its end.
    pub(crate) fn stop(&self) {
        let _ = self.jobs.send(Job::Stop);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// How a transaction went wrong.
enum Trouble {
    /// A record of some commit is at fault; the others can be written without it.
    Refusal,
    /// Nothing of it was written.
    Nothing(StoreError),
    /// The flush failed: it may be there after a restart.
    Unknown(String),
}

struct Group<'c> {
    around: Surroundings,
    apply: Apply<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    checkpointer: Checkpointer,
    /// Pages in the log after the transaction before.
    wal_pages: u32,
}

impl<'c> Group<'c> {
    fn prepare(
        conn: &'c Connection,
        around: Surroundings,
        checkpointer: Checkpointer,
    ) -> rusqlite::Result<Self> {
        Ok(Group {
            around,
            checkpointer,
            apply: Apply::prepare(conn)?,
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            commit: conn.prepare("COMMIT")?,
            wal_pages: 0,
        })
    }

    fn run(&mut self, conn: &Connection, jobs: &Receiver<Job>) {
        let mut requests = Vec::new();
        while let Ok(first) = jobs.recv() {
            let (mut rows, mut next, mut stop) = (0, Some(first), false);
            while let Some(job) = next.take() {
                match job {
                    Job::Commit(request) => {
                        rows += request.commits.iter().map(|it| it.changes.rows()).sum::<usize>();
                        requests.push(request);
                        next = if rows < ROWS_MAX { jobs.try_recv().ok() } else { None };
                    }
                    // Rare, and in a transaction of its own: whoever asks has lost two commits.
                    Job::Turn(request) => {
                        let given = self.give_turn(conn, &request);
                        let _ = request.reply.send(given);
                        next = jobs.try_recv().ok();
                    }
                    Job::Stop => stop = true,
                }
            }
            if !requests.is_empty() {
                let outcomes = self.transact(conn, &requests, rows as u64);
                // Before anybody is answered: whoever has an answer finds it in the figures.
                let log = self.count_log();
                for (request, outcomes) in requests.drain(..).zip(outcomes) {
                    // Nobody may be listening any more; what was written stays.
                    let _ = request.reply.send(outcomes);
                }
                self.keep_log_short(conn, log);
            }
            if stop {
                break;
            }
        }
    }

    fn give_turn(&mut self, conn: &Connection, request: &TurnRequest) -> Result<bool, StoreError> {
        let TurnRequest { partition, server, for_ms, .. } = *request;
        let file = &self.around.file;
        if partition.0 >= self.around.partitions {
            return Err(no_partition(file, partition, self.around.partitions));
        }
        let explain = |error| explain(file, &error);
        self.begin.execute([]).map_err(explain)?;
        let (number, now) = (i64::from(partition.0), self.around.clock.now());
        let given = match self.apply.turn(number) {
            Ok(Some((holder, until))) if until > now => Ok(holder == server),
            Ok(_) => self.apply.put_turn(number, server, now.saturating_add(for_ms)).map(|()| true),
            Err(error) => Err(error),
        };
        let ended = given.and_then(|given| self.commit.execute([]).map(|_| given)).map_err(explain);
        if ended.is_err() {
            self.roll_back(conn);
        }
        ended
    }

    fn transact(&mut self, conn: &Connection, requests: &[Request], rows: u64) -> Vec<Vec<Outcome>> {
        let tried = match self.attempt(conn, requests, Guarding::Together) {
            Err(Trouble::Refusal) => self.attempt(conn, requests, Guarding::Each),
            tried => tried,
        };
        let counters = &self.around.counters;
        add(&counters.statements, self.apply.take_ran() + 2);
        let outcomes = tried.unwrap_or_else(|trouble| {
            let outcome = match trouble {
                Trouble::Nothing(error) => Outcome::Failed(error),
                Trouble::Unknown(text) => Outcome::Unknown(text),
                Trouble::Refusal => Outcome::Failed(closed(&self.around.file)),
            };
            requests.iter().map(|it| vec![outcome.clone(); it.commits.len()]).collect()
        });
        let all = || outcomes.iter().flatten();
        let written = all().filter(|it| matches!(it, Outcome::Committed { .. })).count();
        let conflicts = all().filter(|it| matches!(it, Outcome::Conflict)).count();
        add(&counters.commits, written as u64);
        add(&counters.conflicts, conflicts as u64);
        add(&counters.failures, (all().count() - written - conflicts) as u64);
        counters.transaction(if written > 0 { rows } else { 0 });
        outcomes
    }

    /// One transaction for all. The fast way has no savepoints: they would copy every page that is touched.
    fn attempt(
        &mut self,
        conn: &Connection,
        requests: &[Request],
        guarding: Guarding,
    ) -> Result<Vec<Vec<Outcome>>, Trouble> {
        let file = &self.around.file;
        self.begin.execute([]).map_err(|error| Trouble::Nothing(explain(file, &error)))?;
        let filled = self.fill(conn, requests, guarding);
        let mut outcomes = match filled {
            Ok(outcomes) => outcomes,
            Err(trouble) => {
                self.roll_back(conn);
                return Err(trouble);
            }
        };
        if let Err(error) = self.commit.execute([]) {
            self.roll_back(conn);
            let file = &self.around.file;
            return Err(match error.sqlite_error_code() {
                // The frame that would have made it a commit did not fit.
                Some(rusqlite::ErrorCode::DiskFull) => Trouble::Nothing(explain(file, &error)),
                _ => Trouble::Unknown(explain(file, &error).to_string()),
            });
        }
        let now = self.around.clock.now();
        for outcome in outcomes.iter_mut().flatten() {
            if let Outcome::Committed { now: at } = outcome {
                *at = now;
            }
        }
        Ok(outcomes)
    }

    fn fill(
        &mut self,
        conn: &Connection,
        requests: &[Request],
        guarding: Guarding,
    ) -> Result<Vec<Vec<Outcome>>, Trouble> {
        let mut heads = FxHashMap::default();
        let mut all = Vec::with_capacity(requests.len());
        for request in requests {
            let mut outcomes = Vec::with_capacity(request.commits.len());
            for commit in &request.commits {
                outcomes.push(self.one(conn, &mut heads, commit, guarding)?);
            }
            all.push(outcomes);
        }
        Ok(all)
    }

    fn one(
        &mut self,
        conn: &Connection,
        heads: &mut FxHashMap<PartitionId, Head>,
        commit: &Commit,
        guarding: Guarding,
    ) -> Result<Outcome, Trouble> {
        let file = &self.around.file;
        let partition = commit.partition;
        if partition.0 >= self.around.partitions {
            return Ok(Outcome::Failed(no_partition(file, partition, self.around.partitions)));
        }
        let nothing = |error| Trouble::Nothing(explain(file, &error));
        let number = i64::from(partition.0);
        let Head { version, turn } = match heads.get(&partition) {
            Some(head) => *head,
            None => Head {
                version: self.apply.version(number).map_err(nothing)?,
                turn: self.apply.turn(number).map_err(nothing)?,
            },
        };
        heads.insert(partition, Head { version, turn });
        let now = self.around.clock.now();
        if version != commit.expected || turn.is_some_and(|(it, until)| it != commit.by && until > now) {
            return Ok(Outcome::Conflict);
        }
        if guarding == Guarding::Each {
            conn.execute_batch("SAVEPOINT one").map_err(nothing)?;
        }
        match self.apply.commit(commit, now) {
            Ok(()) => {
                if guarding == Guarding::Each {
                    conn.execute_batch("RELEASE one").map_err(nothing)?;
                }
                if turn.is_some() {
                    self.apply.delete_turn(number).map_err(nothing)?;
                }
                let version = Version { number: version.number + 1, id: commit.id };
                heads.insert(partition, Head { version, turn: None });
                Ok(Outcome::Committed { now })
            }
            Err(error) if is_refusal(&error) && guarding == Guarding::Each => {
                conn.execute_batch("ROLLBACK TO one; RELEASE one").map_err(nothing)?;
                let text = format!("{} refused a record: {error}", file.display());
                Ok(Outcome::Failed(StoreError::Refused(text)))
            }
            Err(error) if is_refusal(&error) => Err(Trouble::Refusal),
            Err(error) => Err(nothing(error)),
        }
    }

    fn roll_back(&self, conn: &Connection) {
        // Some errors have rolled back already.
        if !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(file = %self.around.file.display(), %error, "a transaction could not be rolled back");
        }
    }

    /// Counts what the log has grown by.
    fn count_log(&mut self) -> Log {
        let pages = self.around.wal_pages.load(Ordering::Relaxed);
        let anew = pages < self.wal_pages;
        let grown = if anew { pages } else { pages - self.wal_pages };
        self.wal_pages = pages;
        add(&self.around.counters.wal_bytes, u64::from(grown) * (PAGE_BYTES + FRAME_HEADER_BYTES));
        Log { pages, anew }
    }

    /// Has the log moved into the file when it is long.
    fn keep_log_short(&mut self, conn: &Connection, Log { pages, anew }: Log) {
        if self.checkpointer.notice(pages, anew) {
            checkpoint::run(&self.around.file, conn);
            add(&self.around.counters.checkpoints, 1);
        }
    }
}

/// The log after a transaction.
struct Log {
    pages: u32,
    /// Written from its start again.
    anew: bool,
}

/// Where a partition stands within a transaction.
#[derive(Clone, Copy)]
struct Head {
    version: Version,
    /// Whose turn it is, and until when; also one that is over.
    turn: Option<(ServerId, Ms)>,
}

/// Whether each commit can be taken back alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guarding {
    Together,
    Each,
}
