//! The store: every question goes to a reading thread, every commit to the writer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ff_core::attempt::Attempt;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::payload::{Payload, PayloadKey};
use ff_core::query::{
    CountKey, FlowPage, FlowPageAsk, FramePageAsk, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::step::Step;
use ff_core::stream::Frame;
use ff_core::suspension::Signal;
use ff_core::{ExecutionId, Ms, PartitionId, ServerId};
use ff_store::{
    Clock, Commit, EventPage, Loaded, Outcome, PARCEL_MS, Parcel, Soon, Status, Store, StoreError, StoreInfo,
    Trace, Written,
};
use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::oneshot;

use crate::error::{closed, explain, no_partition};
use crate::inbox;
use crate::open::{self, Opened};
use crate::options::Options;
use crate::presence::LockFolder;
use crate::reader::{Readers, Reads};
use crate::records::Read;
use crate::schema::Identity;
use crate::sql::{read, write};
use crate::stats::{Counters, Stats};
use crate::writer::{Job, Request, Surroundings, TurnRequest, Writer};

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: std::path::PathBuf,
    identity: Identity,
    options: Options,
    locks: LockFolder,
    writer: Writer,
    readers: Readers,
    /// Answers `status` alone, so that no long question delays it.
    pulse: Readers,
    counters: Arc<Counters>,
    closed: AtomicBool,
}

impl SqliteStore {
    /// Opens a file, or makes a new one.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if the file is not a FlowFabric store, is newer than this program, is damaged,
    /// cannot be written, or has another number of partitions; [`StoreError::Unavailable`] if it is locked.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<SqliteStore, StoreError> {
        let Opened { file, locks, identity, writer, wal_pages } = open::open(path.as_ref(), &options)?;
        let counters = Arc::new(Counters::default());
        let around = Surroundings {
            file: file.clone(),
            partitions: identity.partitions,
            clock: options.clock.clone(),
            counters: counters.clone(),
            wal_pages,
        };
        let checkpoints =
            open::connect_checkpointer(&file, &options).map_err(|error| explain(&file, &error))?;
        let writer = Writer::start(writer, checkpoints, around)?;
        let connect = || open::connect_reader(&file, &options);
        let readers = Readers::start(&file, options.readers, connect)?;
        let pulse = Readers::start(&file, 1, connect)?;
        let closed = AtomicBool::new(false);
        let inner = Inner { file, identity, options, locks, writer, readers, pulse, counters, closed };
        Ok(SqliteStore { inner: Arc::new(inner) })
    }

    /// Figures about the work of this handle.
    pub fn stats(&self) -> Stats {
        self.inner.counters.snapshot()
    }

    /// Copies the store, while it is in use, into a new file.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is a file of that name.
    pub fn backup(&self, to: impl AsRef<Path>) -> Soon<'_, Result<(), StoreError>> {
        let to = to.as_ref().to_owned();
        self.aside(move |inner, conn| crate::backup::backup(&conn, &inner.file, &to))
    }

    /// Reads the whole file and says what is wrong with it; nothing if it is good.
    pub fn check(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.aside(|inner, conn| {
            let explain = |error| explain(&inner.file, &error);
            let mut check = conn.prepare("PRAGMA integrity_check").map_err(explain)?;
            let lines = check.query_map([], |row| row.get::<_, String>(0)).map_err(explain)?;
            let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(explain)?;
            Ok(if lines == ["ok"] { Vec::new() } else { lines })
        })
    }

    /// Rare or long work on a connection and a thread of its own.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Soon<'_, Result<T, StoreError>> {
        if self.inner.closed.load(Ordering::SeqCst) {
            return Box::pin(async { Err(closed(&self.inner.file)) });
        }
        let inner = self.inner.clone();
        let (reply, answer) = oneshot::channel();
        let run = move || {
            let conn = open::connect(&inner.file, &inner.options);
            let done = conn.map_err(|error| explain(&inner.file, &error)).and_then(|it| work(&inner, it));
            drop(reply.send(done));
        };
        let started = std::thread::Builder::new().name("sqlite aside".into()).spawn(run);
        Box::pin(async move {
            started.map_err(|error| StoreError::Unavailable(format!("no thread to work with: {error}")))?;
            answer.await.unwrap_or_else(|_| Err(closed(&self.inner.file)))
        })
    }

    fn now(&self) -> Ms {
        self.inner.options.clock.now()
    }

    /// A question about one partition, answered at one version.
    fn ask<T: Send + 'static>(
        &self,
        partition: PartitionId,
        question: impl for<'c> FnOnce(&mut Reads<'c>, i64) -> Read<T> + Send + 'static,
    ) -> Soon<'_, Result<T, StoreError>> {
        let count = self.inner.identity.partitions;
        if partition.0 >= count {
            let error = no_partition(&self.inner.file, partition, count);
            return Box::pin(async { Err(error) });
        }
        let number = i64::from(partition.0);
        self.inner.readers.ask(move |reads| reads.at_one_version(|reads| question(reads, number)))
    }
}

impl Inner {
    /// The names of servers that gave a sign of life and did not leave, in order.
    fn servers(&self, conn: &Connection) -> Result<Vec<String>, StoreError> {
        let explain = |error| explain(&self.file, &error);
        let mut servers = conn.prepare(read::servers).map_err(explain)?;
        let names = servers.query_map([], |row| row.get::<_, String>(0)).map_err(explain)?;
        names.collect::<Result<_, _>>().map_err(explain)
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.writer.stop();
            self.readers.stop();
            self.pulse.stop();
            self.locks.release_all();
        }
    }
}

impl Drop for SqliteStore {
    /// Waits for what is being written, so that the file can be opened, moved or removed afterwards.
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl Store for SqliteStore {
    fn info(&self) -> StoreInfo {
        let Identity { id, partitions } = self.inner.identity;
        StoreInfo { kind: "sqlite", id, partitions, lines: 1 }
    }

    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        let clock: Arc<dyn Clock> = self.inner.options.clock.clone();
        self.ask(partition, move |reads, partition| {
            let version = reads.head(partition)?.0;
            let answers = asks.into_iter().map(|ask| reads.answer(partition, ask));
            let answers = answers.collect::<Result<Vec<_>, _>>()?;
            Ok(Loaded { version, now: clock.now(), answers })
        })
    }

    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        let count = commits.len();
        let (reply, answer) = oneshot::channel();
        // Sent now, not at the first poll: the order of calls is the order of commits.
        let sent = match self.inner.closed.load(Ordering::SeqCst) {
            true => false,
            false => self.inner.writer.send(Job::Commit(Request { commits, reply })).is_ok(),
        };
        Box::pin(async move {
            let file = &self.inner.file;
            if !sent {
                return vec![Outcome::Failed(closed(file)); count];
            }
            answer.await.unwrap_or_else(|_| {
                let text = format!("the writer of {} ended before it answered", file.display());
                vec![Outcome::Unknown(text); count]
            })
        })
    }

    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        let partitions = self.inner.identity.partitions;
        self.aside(move |inner, mut conn| {
            let explain = |error| explain(&inner.file, &error);
            let turn = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(explain)?;
            inbox::post(&turn, partitions, &rows).map_err(explain)?;
            turn.commit().map_err(explain)
        })
    }

    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        self.ask(partition, move |reads, partition| reads.written(partition, number))
    }

    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let sent = match self.inner.closed.load(Ordering::SeqCst) {
            true => false,
            false => {
                let request = TurnRequest { partition, server, for_ms, reply };
                self.inner.writer.send(Job::Turn(request)).is_ok()
            }
        };
        Box::pin(async move {
            let closed = || Err(closed(&self.inner.file));
            if sent { answer.await.unwrap_or_else(|_| closed()) } else { closed() }
        })
    }

    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        let partitions = self.inner.identity.partitions;
        let status = self.inner.pulse.ask(move |reads| reads.status(partitions));
        Box::pin(async move { Ok((self.now(), status.await?)) })
    }

    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.at_one_version(|reads| reads.payloads(&keys)))
    }

    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.attempts(execution))
    }

    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.at_one_version(|reads| reads.steps(&executions)))
    }

    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.at_one_version(|reads| reads.signals(&keys)))
    }

    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.frames(&ask))
    }

    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        self.inner.readers.ask(move |reads| reads.orphans(limit))
    }

    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        self.inner.readers.ask(move |reads| reads.waitpoints(&ask))
    }

    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        self.inner.readers.ask(move |reads| reads.page(&ask))
    }

    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        self.inner.readers.ask(move |reads| reads.flow_page(&ask))
    }

    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        self.inner.readers.ask(|reads| reads.counts())
    }

    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        self.ask(partition, move |reads, partition| reads.events(partition, from, limit))
    }

    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        self.ask(partition, move |reads, partition| reads.first_event_since(partition, at))
    }

    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.aside(move |inner, conn| {
            let turn = inner.locks.turn()?;
            // First the lock, then the row: a row without a lock is a death.
            inner.locks.hold(&turn, &server)?;
            let mut names = inner.servers(&conn)?;
            if names.binary_search(&server).is_err() {
                let row = params![server, inner.options.clock.now()];
                conn.execute(write::put_server, row).map_err(|error| explain(&inner.file, &error))?;
                names = inner.servers(&conn)?;
            }
            let mut alive = Vec::new();
            for name in names {
                if !inner.locks.is_free(&turn, &name)? {
                    alive.push(name);
                }
            }
            Ok(alive)
        })
    }

    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.aside(|inner, conn| {
            let turn = inner.locks.turn()?;
            let mut gone = Vec::new();
            for name in inner.servers(&conn)? {
                if inner.locks.is_free(&turn, &name)? {
                    gone.push(name);
                }
            }
            Ok(gone)
        })
    }

    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.aside(move |inner, mut conn| {
            let explain = |error| explain(&inner.file, &error);
            let any: bool = conn.query_row(read::has_parcels, [], |row| row.get(0)).map_err(explain)?;
            if !any && parcels.is_empty() {
                return Ok(Vec::new());
            }
            let now = inner.options.clock.now();
            let turn = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(explain)?;
            for Parcel { to, text } in parcels {
                turn.execute(write::put_parcel, params![to, now, text]).map_err(explain)?;
            }
            turn.execute(write::delete_parcels, [now - PARCEL_MS]).map_err(explain)?;
            let taken = {
                let mut take = turn.prepare(write::take_parcels).map_err(explain)?;
                let taken = take.query_map([&server], |row| row.get(0)).map_err(explain)?;
                taken.collect::<Result<_, _>>().map_err(explain)?
            };
            turn.commit().map_err(explain)?;
            Ok(taken)
        })
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        self.aside(move |inner, conn| {
            let turn = inner.locks.turn()?;
            conn.execute(write::delete_server, [&server]).map_err(|error| explain(&inner.file, &error))?;
            inner.locks.release(&turn, &server)
        })
    }

    fn close(&self) -> Soon<'_, ()> {
        let inner = self.inner.clone();
        let (done, end) = oneshot::channel();
        let run = move || {
            inner.close();
            let _ = done.send(());
        };
        let started = std::thread::Builder::new().name("sqlite close".into()).spawn(run);
        Box::pin(async move {
            match started {
                Ok(_) => drop(end.await),
                Err(_) => self.inner.close(),
            }
        })
    }
}
