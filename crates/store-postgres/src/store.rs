//! The store: every question goes to a reading connection, every commit to its partition's writing one.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    Commit, EventPage, Loaded, Outcome, PARCEL_MS, Parcel, Soon, Status, Store, StoreError, StoreInfo, Trace,
    Written,
};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::columns::Param;
use crate::error::{closed, explain, no_partition, unreadable};
use crate::link::{Link, Place};
use crate::migrate::{self, Identity, Migrated};
use crate::options::Options;
use crate::records::{Read, ReadError, column};
use crate::stats::{Counters, Stats, add};
use crate::status::{STATUS, Seen};
use crate::writer::{self, Job};
use crate::{asks, inbox, mail, reads};

/// A server that said nothing for so long is not counted among the living.
const SILENCE_MS: Ms = 3_500;

/// A store in one PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    /// Connections are served, and rows encoded and decoded, on a thread of the store's own.
    io: Option<Io>,
}

#[derive(Debug)]
struct Io {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Debug)]
struct Inner {
    place: Place,
    identity: Identity,
    options: Options,
    handle: Handle,
    writers: Mutex<Vec<mpsc::UnboundedSender<Job>>>,
    readers: Vec<Arc<Link>>,
    next_reader: AtomicUsize,
    /// Answers `status` alone, so that no long question delays it.
    pulse: Arc<Link>,
    seen: Mutex<Seen>,
    /// Whether other servers write here too.
    shared: Arc<AtomicBool>,
    counters: Arc<Counters>,
    closed: AtomicBool,
}

impl PostgresStore {
    /// Connects to a database and, unless the options say otherwise, brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if the address, the rights or the schema have to be put right first;
    /// [`StoreError::Unavailable`] if the server is out of reach now.
    pub async fn open(address: Address, options: Options) -> Result<PostgresStore, StoreError> {
        let options = Options { partitions: options.partitions.or(address.partitions), ..options };
        let place = Place::new(address)?;
        let (handle, io) = start_io()?;
        let opened = {
            let (at, options) = (place.clone(), options.clone());
            let opening = handle.spawn(async move { open(&at, &options).await });
            opening.await.unwrap_or_else(|_| Err(closed(place.shown())))
        };
        let identity = match opened {
            Ok(identity) => identity,
            Err(error) => {
                let _ = io.stop.send(());
                return Err(error);
            }
        };
        let link = || Arc::new(Link::new(place.clone()));
        let (counters, shared) = (Arc::new(Counters::default()), Arc::new(AtomicBool::new(false)));
        let mut writers = Vec::new();
        for _ in 0..options.writers.max(1) {
            let (sender, jobs) = mpsc::unbounded_channel();
            handle.spawn(writer::run(link(), jobs, options.clock.clone(), counters.clone(), shared.clone()));
            writers.push(sender);
        }
        let inner = Inner {
            identity,
            handle,
            writers: Mutex::new(writers),
            readers: (0..options.readers.max(1)).map(|_| link()).collect(),
            next_reader: AtomicUsize::new(0),
            pulse: link(),
            seen: Mutex::new(Seen::nothing(identity.partitions)),
            shared,
            counters,
            closed: AtomicBool::new(false),
            place,
            options,
        };
        Ok(PostgresStore { inner: Arc::new(inner), io: Some(io) })
    }

    /// Brings the schema of a database up to date without opening the store.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn migrate(address: Address, options: Options) -> Result<Migrated, StoreError> {
        let options = Options { partitions: options.partitions.or(address.partitions), ..options };
        let place = Place::new(address)?;
        let mut client = place.connect().await?;
        migrate::check_server(place.shown(), &client).await?;
        migrate::migrate(place.shown(), &mut client, &options).await
    }

    /// Figures about the work of this handle.
    pub fn stats(&self) -> Stats {
        self.inner.counters.snapshot()
    }

    /// Asks a question on a reading connection; once more if that was lost meanwhile.
    fn ask<T, F>(
        &self,
        question: impl Fn(Arc<Client>) -> F + Send + Sync + 'static,
    ) -> Soon<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Read<T>> + Send + 'static,
    {
        let next = self.inner.next_reader.fetch_add(1, Ordering::Relaxed);
        let link = self.inner.readers[next % self.inner.readers.len()].clone();
        self.ask_on(link, question)
    }

    fn ask_on<T, F>(
        &self,
        link: Arc<Link>,
        question: impl Fn(Arc<Client>) -> F + Send + Sync + 'static,
    ) -> Soon<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Read<T>> + Send + 'static,
    {
        let inner = self.inner.clone();
        if inner.closed.load(Ordering::SeqCst) {
            return Box::pin(async move { Err(closed(inner.place.shown())) });
        }
        add(&inner.counters.reads, 1);
        let asked = inner.handle.spawn(async move {
            let client = link.client().await?;
            let mut answer = question(client.clone()).await;
            if answer.is_err() && client.is_closed() {
                answer = question(link.client().await?).await;
            }
            answer.map_err(|error| read_error(link.place.shown(), &error))
        });
        Box::pin(async move { asked.await.unwrap_or_else(|_| Err(closed(self.inner.place.shown()))) })
    }

    fn partition(&self, partition: PartitionId) -> Result<i32, StoreError> {
        let count = self.inner.identity.partitions;
        match partition.0 < count {
            true => Ok(i32::from(partition.0)),
            false => Err(no_partition(self.inner.place.shown(), partition, count)),
        }
    }

    fn now(&self) -> Option<Ms> {
        self.inner.options.clock.as_ref().map(|clock| clock.now())
    }
}

/// Starts the thread that serves the connections.
fn start_io() -> Result<(Handle, Io), StoreError> {
    let unavailable =
        |error: std::io::Error| StoreError::Unavailable(format!("no thread to work with: {error}"));
    let runtime: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unavailable)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        runtime.block_on(async {
            let _ = stopped.await;
        });
    };
    let thread = std::thread::Builder::new().name("postgres".into()).spawn(run).map_err(unavailable)?;
    Ok((handle, Io { stop, thread }))
}

async fn open(place: &Place, options: &Options) -> Result<Identity, StoreError> {
    let shown = place.shown();
    let mut client = place.connect().await?;
    migrate::check_server(shown, &client).await?;
    if options.migrate {
        migrate::migrate(shown, &mut client, options).await?;
    } else {
        let found = migrate::version(shown, &client).await?;
        migrate::check_version(shown, &client, found).await?;
        if found < migrate::newest_schema() {
            return Err(StoreError::Unusable(format!(
                "{shown} has schema {found}, and this program needs {}: run `flowfabric store migrate`",
                migrate::newest_schema()
            )));
        }
    }
    let identity = migrate::identity(shown, &client).await?;
    if let Some(asked) = options.partitions
        && asked != identity.partitions
    {
        return Err(StoreError::Unusable(format!(
            "{shown} has {} partitions and keeps them for ever; {asked} were asked for: leave the option out",
            identity.partitions
        )));
    }
    Ok(identity)
}

fn read_error(place: &str, error: &ReadError) -> StoreError {
    match error {
        ReadError::Postgres(error) => match explain(place, error) {
            // At work, what cannot be used now may be put right while the engine waits.
            StoreError::Unusable(text) => StoreError::Unavailable(text),
            error => error,
        },
        ReadError::Unreadable(what, why) => unreadable(place, what, why),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        lock(&self.inner.writers).clear();
        if let Some(io) = self.io.take() {
            let _ = io.stop.send(());
            // Not from its own thread, which would wait for itself.
            if io.thread.thread().id() != std::thread::current().id() {
                let _ = io.thread.join();
            }
        }
    }
}

impl Store for PostgresStore {
    fn info(&self) -> StoreInfo {
        let Identity { id, partitions } = self.inner.identity;
        let lines = u16::try_from(self.inner.options.writers.max(1)).unwrap_or(1);
        StoreInfo { kind: "postgres", id, partitions, lines }
    }

    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        let partition = match self.partition(partition) {
            Ok(partition) => partition,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let clock = self.inner.options.clock.clone();
        let asks = Arc::new(asks);
        self.ask(move |client| {
            let (asks, clock) = (asks.clone(), clock.clone());
            async move {
                let encoded = asks::encode(&asks);
                let params: [Param<'_>; 5] = [
                    (&partition, Type::INT4),
                    (&encoded.executions, Type::UUID_ARRAY),
                    (&encoded.others, Type::TEXT),
                    (&encoded.registry, Type::TEXT),
                    (&encoded.opening, Type::INT4),
                ];
                let rows = match encoded.is_plain() {
                    true => client.query_typed(asks::LOAD, &params[..3]).await?,
                    false => client.query_typed(asks::LOAD_WITH_REST, &params).await?,
                };
                let loaded = asks::decode(Arc::unwrap_or_clone(asks), &rows)?;
                Ok(Loaded { now: clock.map_or(loaded.now, |clock| clock.now()), ..loaded })
            }
        })
    }

    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        let count = commits.len();
        let mut answers = Vec::new();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; count];
        {
            // Sent now, not at the first poll: the order of calls is the order of commits.
            let writers = lock(&self.inner.writers);
            let mut known = Vec::with_capacity(count);
            for (place, commit) in commits.into_iter().enumerate() {
                match self.partition(commit.partition) {
                    Ok(_) => known.push((place, commit)),
                    Err(error) => outcomes[place] = Some(Outcome::Failed(error)),
                }
            }
            for (places, commits) in writer::shares(known, writers.len().max(1)) {
                let (reply, answer) = oneshot::channel();
                let share = usize::from(commits[0].partition.0) % writers.len().max(1);
                let sent = writers.get(share).is_some_and(|it| it.send(Job { commits, reply }).is_ok());
                answers.push((places, sent.then_some(answer)));
            }
        }
        Box::pin(async move {
            for (places, answer) in answers {
                let shown = self.inner.place.shown();
                let found = match answer {
                    None => vec![Outcome::Failed(closed(shown)); places.len()],
                    Some(answer) => answer.await.unwrap_or_else(|_| {
                        let text = format!("the connection to {shown} ended before it answered");
                        vec![Outcome::Unknown(text); places.len()]
                    }),
                };
                places.into_iter().zip(found).for_each(|(place, outcome)| outcomes[place] = Some(outcome));
            }
            outcomes.into_iter().flatten().collect()
        })
    }

    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        let (rows, partitions) = (Arc::new(rows), self.inner.identity.partitions);
        self.ask(move |client| {
            let rows = rows.clone();
            async move { inbox::post(&client, partitions, &rows).await }
        })
    }

    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        match self.partition(partition) {
            Ok(partition) => {
                self.ask(move |client| async move { reads::written(&client, partition, number).await })
            }
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        let partition = match self.partition(partition) {
            Ok(partition) => partition,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let now = self.now();
        self.ask(move |client| async move {
            let params: [Param<'_>; 4] = [
                (&now, Type::INT8),
                (&partition, Type::INT4),
                (&server.0, Type::UUID),
                (&for_ms, Type::INT8),
            ];
            let row = client.query_typed_one("SELECT flowfabric.turn_1($1, $2, $3, $4)", &params).await?;
            column(&row, 0)
        })
    }

    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        let inner = self.inner.clone();
        let found = self.ask_on(self.inner.pulse.clone(), move |client| {
            let inner = inner.clone();
            async move {
                let known = lock(&inner.seen).known();
                let rows = client.query_typed(STATUS, &[(&known, Type::INT8_ARRAY)]).await?;
                lock(&inner.seen).update(&rows)
            }
        });
        let own = self.inner.options.clock.clone();
        Box::pin(async move {
            let (now, status) = found.await?;
            Ok((own.map_or(now, |clock| clock.now()), status))
        })
    }

    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        let keys = Arc::new(keys);
        self.ask(move |client| {
            let keys = keys.clone();
            async move { reads::payloads(&client, &keys).await }
        })
    }

    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.ask(move |client| async move { reads::attempts(&client, execution).await })
    }

    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        let executions = Arc::new(executions);
        self.ask(move |client| {
            let executions = executions.clone();
            async move { mail::steps(&client, &executions).await }
        })
    }

    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        let keys = Arc::new(keys);
        self.ask(move |client| {
            let keys = keys.clone();
            async move { mail::signals(&client, &keys).await }
        })
    }

    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        self.ask(move |client| async move { mail::frames(&client, &ask).await })
    }

    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        self.ask(move |client| async move { mail::orphans(&client, limit).await })
    }

    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        let ask = Arc::new(ask);
        self.ask(move |client| {
            let ask = ask.clone();
            async move { mail::waitpoints(&client, &ask).await }
        })
    }

    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        let ask = Arc::new(ask);
        self.ask(move |client| {
            let ask = ask.clone();
            async move { reads::page(&client, &ask).await }
        })
    }

    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        let ask = Arc::new(ask);
        self.ask(move |client| {
            let ask = ask.clone();
            async move { reads::flow_page(&client, &ask).await }
        })
    }

    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        let partitions = self.inner.identity.partitions;
        self.ask(move |client| async move { reads::counts(&client, partitions).await })
    }

    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        match self.partition(partition) {
            Ok(partition) => {
                self.ask(move |client| async move { reads::events(&client, partition, from, limit).await })
            }
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        match self.partition(partition) {
            Ok(partition) => {
                self.ask(move |client| async move { reads::first_event_since(&client, partition, at).await })
            }
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        let (now, server, shared) = (self.now(), Arc::new(server), self.inner.shared.clone());
        self.ask_on(self.inner.pulse.clone(), move |client| {
            let (server, shared) = (server.clone(), shared.clone());
            async move {
                let params: [Param<'_>; 3] =
                    [(&now, Type::INT8), (&*server, Type::TEXT), (&SILENCE_MS, Type::INT8)];
                let rows =
                    client.query_typed("SELECT name FROM flowfabric.beat_1($1, $2, $3)", &params).await?;
                shared.store(rows.len() > 1, Ordering::Relaxed);
                rows.iter().map(|row| column(row, 0)).collect()
            }
        })
    }

    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        let (to, texts): (Vec<String>, Vec<String>) = parcels.into_iter().map(|it| (it.to, it.text)).unzip();
        let (now, sent) = (self.now(), Arc::new((server, to, texts)));
        self.ask_on(self.inner.pulse.clone(), move |client| {
            let sent = sent.clone();
            async move {
                let (server, to, texts) = &*sent;
                let params: [Param<'_>; 5] = [
                    (&now, Type::INT8),
                    (server, Type::TEXT),
                    (&PARCEL_MS, Type::INT8),
                    (to, Type::TEXT_ARRAY),
                    (texts, Type::TEXT_ARRAY),
                ];
                let call = "SELECT body FROM flowfabric.exchange_1($1, $2, $3, $4, $5)";
                let rows = client.query_typed(call, &params).await?;
                rows.iter().map(|row| column(row, 0)).collect()
            }
        })
    }

    /// A network cannot prove that a process has ended: its leases run out by themselves.
    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        let server = Arc::new(server);
        self.ask_on(self.inner.pulse.clone(), move |client| {
            let server = server.clone();
            async move {
                let delete = "DELETE FROM flowfabric.servers WHERE name = $1";
                client.query_typed(delete, &[(&*server, Type::TEXT)]).await?;
                Ok(())
            }
        })
    }

    fn close(&self) -> Soon<'_, ()> {
        self.inner.closed.store(true, Ordering::SeqCst);
        lock(&self.inner.writers).clear();
        let inner = self.inner.clone();
        let closing = self.inner.handle.spawn(async move {
            for link in inner.readers.iter().chain([&inner.pulse]) {
                link.close().await;
            }
        });
        Box::pin(async move { drop(closing.await) })
    }
}
