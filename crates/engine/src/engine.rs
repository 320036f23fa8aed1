//! The in-process API: commands, polls, reads, waits, subscriptions.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use ff_core::attempt::Attempt;
use ff_core::commands::{Poll, Renew};
use ff_core::execution::Fence;
use ff_core::flow::ListKey;
use ff_core::key::{Ask, Key};
use ff_core::lane::Lane;
use ff_core::limits::Limits;
use ff_core::payload::{PayloadKey, Slot};
use ff_core::query::{CountKey, Filter, Page, PageAsk};
use ff_core::reply::Renewal;
use ff_core::worker::WorkerInstance;
use ff_core::workspace::{Answer, Opening};
use ff_core::{
    Command, Execution, ExecutionId, InstanceId, Ms, PartitionId, Payload, Rejection, Reply, Route,
};
use ff_store::{Store, StoreError};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::Instrument as _;

use crate::bulk::Desk;
use crate::config::EngineConfig;
use crate::driver::{Driver, Request, Shared};
pub use crate::driver::{Ended, ShutdownReport, Task};
use crate::explain::{Explanation, Upstreams, explain};
use crate::failure::Failure;
use crate::machine::MachineStats;
use crate::meters::Meters;
use crate::random::{self, Random, mix};
use crate::registry::TokenCache;
use crate::spans;
use crate::subscription::{EventFilter, Start, SubscribeError, Subscription};
use crate::tail::Tails;
use crate::transfer;

/// How many new executions in a row go to one partition.
const ROUTE_RUN: usize = 256;

/// How many records a filtered count looks at before it says "more".
pub const COUNT_MAX: usize = 10_000;
/// How many pages are counted at most: twice as many as are full when [`COUNT_MAX`] match, so that a filter that matches
/// little does not read everything.
pub(crate) const COUNTED_PAGES: usize = 20;

/// How many upstreams an explanation looks at.
const UPSTREAMS_TOLD: usize = 20;

/// A handle on a running engine. Cheap to clone; the engine stops when it is shut down or the last handle is
/// dropped.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// A handle that does not keep the engine running.
#[derive(Clone, Debug)]
pub(crate) struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner })
    }
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    config: EngineConfig,
    shared: Arc<Shared>,
    requests: mpsc::UnboundedSender<Request>,
    server: String,
    partitions: u16,
    random: Random,
    /// Where new work without a key goes next.
    next_route: AtomicUsize,
    /// Whether there is known to be a key that tokens are signed with.
    has_key: AtomicBool,
    tokens: TokenCache,
    bulk: Arc<Desk>,
    started: Instant,
}

impl Engine {
    /// Starts an engine on a store.
    pub async fn start(store: Arc<dyn Store>, config: EngineConfig) -> Result<Engine, StoreError> {
        let info = store.info();
        transfer::refuse_unfinished(&*store).await?;
        let (_, statuses) = store.status().await?;
        let seed = random::seed();
        let server = format!("{:016x}", mix(seed));
        let alive = store.beat(server.clone()).await?;
        let shared = Arc::new(Shared {
            next_events: statuses.iter().map(|status| AtomicU64::new(status.next_event)).collect(),
            changed: Notify::new(),
            unread: AtomicBool::new(false),
            subscribers: AtomicUsize::new(0),
            preferred: RwLock::default(),
            alive: RwLock::default(),
            tails: Tails::default(),
            meters: Meters::default(),
        });
        let (requests, receiver) = mpsc::unbounded_channel();
        let (name, seed_of_driver) = (server.clone(), mix(seed ^ 1));
        let mut driver =
            Driver::new(store.clone(), config.clone(), shared.clone(), receiver, name, seed_of_driver);
        driver.set_servers(&alive);
        spawn_driver(driver)?;
        let random = Random::new(mix(seed ^ 2));
        let (partitions, next_route) = (info.partitions, AtomicUsize::new(0));
        let inner = Inner {
            store,
            config,
            shared,
            requests,
            server,
            partitions,
            random,
            next_route,
            has_key: AtomicBool::new(false),
            tokens: TokenCache::default(),
            bulk: Arc::default(),
            started: Instant::now(),
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    pub(crate) fn has_key(&self) -> bool {
        self.inner.has_key.load(Ordering::Relaxed)
    }

    pub(crate) fn set_has_key(&self) {
        self.inner.has_key.store(true, Ordering::Relaxed);
    }

    pub(crate) fn token_cache(&self) -> &TokenCache {
        &self.inner.tokens
    }

    pub(crate) fn bulk_desk(&self) -> &Arc<Desk> {
        &self.inner.bulk
    }

    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }

    /// Whether time passes only when somebody moves it.
    pub(crate) fn has_own_clock(&self) -> bool {
        self.inner.config.local_clock.is_some()
    }

    /// Whether nothing can be asked of it any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.requests.is_closed()
    }

    /// The time on the process's own clock, which only tells how much has passed.
    pub(crate) fn local_now(&self) -> Ms {
        match &self.inner.config.local_clock {
            Some(clock) => clock.now(),
            None => Ms::try_from(self.inner.started.elapsed().as_millis()).unwrap_or(Ms::MAX),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.config.limits
    }

    /// The name under which this process has entered the store.
    pub fn server(&self) -> &str {
        &self.inner.server
    }

    /// The time on the store's clock.
    pub async fn now(&self) -> Result<Ms, Failure> {
        let loaded = self.inner.store.load(PartitionId(0), Vec::new()).await.map_err(unavailable)?;
        Ok(loaded.now)
    }

    /// Whether no other process serves the store.
    pub fn serves_alone(&self) -> bool {
        self.inner.shared.alive.read().unwrap_or_else(PoisonError::into_inner).len() <= 1
    }

    /// Whether a process of this name served the store a moment ago.
    pub fn is_alive(&self, server: &str) -> bool {
        let alive = self.inner.shared.alive.read().unwrap_or_else(PoisonError::into_inner);
        alive.iter().any(|it| it == server)
    }

    // ---- ids -----------------------------------------------------------------------------------------

    /// A number nobody else has drawn.
    pub fn random(&self) -> u64 {
        self.inner.random.next()
    }

    /// A new execution id. With an idempotency key its route is the key's.
    pub fn new_execution_id(&self, now: Ms, namespace: &str, key: Option<&str>) -> ExecutionId {
        let route = key.map_or_else(|| self.free_route(), |key| Route::of_key(namespace, key));
        ExecutionId::from_parts(now, route, self.random())
    }

    pub fn new_instance_id(&self, now: Ms) -> InstanceId {
        InstanceId::from_parts(now, self.free_route(), self.random())
    }

    /// New work without a key goes round the partitions in which this server comes first, or all if there are
    /// none, a while to each, so that what is submitted together is committed together.
    pub(crate) fn free_route(&self) -> Route {
        let next = self.inner.next_route.fetch_add(1, Ordering::Relaxed) / ROUTE_RUN;
        let preferred = self.inner.shared.preferred.read().unwrap_or_else(PoisonError::into_inner);
        match preferred.len() {
            0 => Route((next % usize::from(self.inner.partitions)) as u16),
            count => Route(preferred[next % count]),
        }
    }

    fn partition(&self, id: ExecutionId) -> PartitionId {
        id.route().partition(self.inner.partitions)
    }

    // ---- commands ------------------------------------------------------------------------------------

    /// Carries out one command and waits until it is durable.
    pub async fn execute(&self, command: impl Into<Command>) -> Result<Reply, Failure> {
        let command = command.into();
        let span = spans::command(&command);
        let partition = self.admit(&command)?;
        let (answer, reply) = oneshot::channel();
        self.send(Request::Execute { partition, command, answer })?;
        reply.instrument(span).await.unwrap_or(Err(Failure::ShuttingDown))
    }

    /// Carries out many commands at once; they are committed together as far as possible and answered in
    /// order, each for itself.
    pub async fn execute_all(&self, commands: Vec<Command>) -> Vec<Result<Reply, Failure>> {
        spans::together(&commands);
        let count = commands.len();
        let mut results: Vec<Option<Result<Reply, Failure>>> = vec![None; count];
        let mut sent = Vec::with_capacity(count);
        let mut places = Vec::with_capacity(count);
        for (n, command) in commands.into_iter().enumerate() {
            match self.admit(&command) {
                Ok(partition) => {
                    sent.push((partition, command));
                    places.push(n);
                }
                Err(failure) => results[n] = Some(Err(failure)),
            }
        }
        let replies = self.send_all(sent).await;
        for (n, reply) in places.into_iter().zip(replies) {
            results[n] = Some(reply);
        }
        results.into_iter().map(|result| result.unwrap_or(Err(Failure::ShuttingDown))).collect()
    }

    async fn send_all(&self, commands: Vec<(PartitionId, Command)>) -> Vec<Result<Reply, Failure>> {
        let count = commands.len();
        let (answer, replies) = oneshot::channel();
        if let Err(failure) = self.send(Request::ExecuteAll { commands, answer }) {
            return vec![Err(failure); count];
        }
        replies.await.unwrap_or_else(|_| vec![Err(Failure::ShuttingDown); count])
    }

    /// Checks a command before it costs anything, and says which partition decides it.
    fn admit(&self, command: &Command) -> Result<PartitionId, Failure> {
        command.validate(&self.inner.config.limits)?;
        command
            .partition(self.inner.partitions)
            .ok_or_else(|| Failure::Internal(format!("{} has no partition of its own", command.name())))
    }

    pub(crate) fn send(&self, request: Request) -> Result<(), Failure> {
        self.inner.requests.send(request).map_err(|_| Failure::ShuttingDown)
    }

    /// Renews leases, in one command per partition.
    pub async fn renew(&self, fences: Vec<Fence>) -> Vec<Result<Renewal, Failure>> {
        let mut by_partition = FxHashMap::<PartitionId, Vec<usize>>::default();
        for (n, fence) in fences.iter().enumerate() {
            by_partition.entry(self.partition(fence.execution)).or_default().push(n);
        }
        let groups: Vec<(PartitionId, Vec<usize>)> = by_partition.into_iter().collect();
        let command =
            |places: &Vec<usize>| Renew { fences: places.iter().map(|n| fences[*n]).collect() }.into();
        let commands = groups.iter().map(|(partition, places)| (*partition, command(places))).collect();
        let replies = self.send_all(commands).await;
        let mut results = vec![Err(Failure::ShuttingDown); fences.len()];
        for ((_, places), reply) in groups.into_iter().zip(replies) {
            match reply {
                Ok(Reply::Renewed(renewals)) => {
                    for (n, renewal) in places.into_iter().zip(renewals) {
                        results[n] = renewal.map_err(Failure::Rejected);
                    }
                }
                Ok(_) => {}
                Err(failure) => places.into_iter().for_each(|n| results[n] = Err(failure.clone())),
            }
        }
        results
    }

    /// Waits for work and claims up to `max` executions; nothing after `wait`. Safe to drop: what was claimed
    /// for it goes back, and nothing is spent.
    pub async fn poll(&self, poll: Arc<Poll>, max: usize, wait: Duration) -> Result<Vec<Task>, Failure> {
        let (answer, tasks) = oneshot::channel();
        let wait_ms = Ms::try_from(wait.as_millis()).unwrap_or(Ms::MAX / 4);
        let number = self.random();
        self.send(Request::Poll { number, poll: poll.clone(), max: max.max(1), wait_ms, answer })?;
        let mut polling = Polling { engine: self, number, tasks, over: false };
        let tasks = (&mut polling.tasks).await;
        polling.over = true;
        let tasks = tasks.unwrap_or(Err(Failure::ShuttingDown))?;
        spans::claimed(&poll, &tasks);
        Ok(tasks)
    }

    /// From now on, sends the ids of executions whose lease this instance should look at: taken away, or to
    /// be cancelled.
    pub fn watch_leases(&self, instance: InstanceId) -> mpsc::UnboundedReceiver<ExecutionId> {
        let (disturbed, receiver) = mpsc::unbounded_channel();
        let _ = self.send(Request::Watch { instance, disturbed });
        receiver
    }

    // ---- reads ---------------------------------------------------------------------------------------

    /// An execution as it is committed.
    pub async fn get(&self, id: ExecutionId) -> Result<Option<Arc<Execution>>, Failure> {
        let asks = vec![Ask::Record(Key::Execution(id))];
        let loaded = self.inner.store.load(self.partition(id), asks).await.map_err(unavailable)?;
        Ok(loaded.answers.into_iter().find_map(|answer| match answer {
            Answer::Execution(_, execution) => execution,
            _ => None,
        }))
    }

    /// Executions as they are committed, with one question to each partition; those that are not there are left out.
    pub async fn get_all(
        &self,
        ids: &[ExecutionId],
    ) -> Result<FxHashMap<ExecutionId, Arc<Execution>>, Failure> {
        let mut asks = FxHashMap::<PartitionId, Vec<Ask>>::default();
        for id in ids {
            asks.entry(self.partition(*id)).or_default().push(Ask::Record(Key::Execution(*id)));
        }
        let mut records = FxHashMap::default();
        for (partition, asks) in asks {
            let loaded = self.inner.store.load(partition, asks).await.map_err(unavailable)?;
            for answer in loaded.answers {
                if let Answer::Execution(id, Some(execution)) = answer {
                    records.insert(id, execution);
                }
            }
        }
        Ok(records)
    }

    pub async fn payload(&self, id: ExecutionId, slot: Slot) -> Result<Option<Payload>, Failure> {
        let keys = vec![PayloadKey { execution: id, slot }];
        let found = self.inner.store.payloads(keys).await.map_err(unavailable)?.pop().flatten();
        if found.is_some() || slot != Slot::Result {
            return Ok(found);
        }
        // A node that is a flow has no result of its own: what it gives is its flow's.
        let node = self.get(id).await?.filter(|it| it.has_result());
        match node.and_then(|it| it.child_flow()) {
            Some(child) => Ok(Some(self.flow_result(child).await?)),
            None => Ok(None),
        }
    }

    /// Payloads in the order asked for; `None` where there is none.
    pub async fn payloads(&self, keys: Vec<PayloadKey>) -> Result<Vec<Option<Payload>>, Failure> {
        self.inner.store.payloads(keys).await.map_err(unavailable)
    }

    /// All attempts of an execution, oldest first.
    pub async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Failure> {
        let Some(execution) = self.get(id).await? else { return Err(not_found(id)) };
        let mut attempts = self.inner.store.attempts(id).await.map_err(unavailable)?;
        if let Some(newest) = &execution.live.attempt {
            // It may have been archived between the two reads.
            attempts.retain(|attempt| attempt.number < newest.number);
            attempts.push(newest.clone());
        }
        Ok(attempts)
    }

    pub async fn list(&self, ask: PageAsk) -> Result<Page, Failure> {
        self.inner.store.executions(ask).await.map_err(unavailable)
    }

    /// Exact counts by namespace, lane, kind and state.
    pub async fn counts(&self) -> Result<Vec<(CountKey, u64)>, Failure> {
        self.inner.store.counts().await.map_err(unavailable)
    }

    /// How many executions match, and whether there are more: filters the counters cannot answer are counted up
    /// to [`COUNT_MAX`], and among [`COUNTED_PAGES`] times as many records as one page looks at.
    pub async fn count(&self, filter: &Filter) -> Result<(u64, bool), Failure> {
        if filter.is_counted() {
            let counts = self.counts().await?;
            return Ok((counts.iter().filter(|(key, _)| key.matches(filter)).map(|(_, n)| n).sum(), false));
        }
        let mut ask = PageAsk {
            filter: filter.clone(),
            order: Default::default(),
            after: None,
            limit: 1_000,
            scan_max: COUNT_MAX,
        };
        let mut count = 0;
        for _ in 0..COUNTED_PAGES {
            let page = self.list(ask.clone()).await?;
            count += page.executions.len();
            match page.next {
                Some(_) if count >= COUNT_MAX => return Ok((COUNT_MAX as u64, true)),
                Some(next) => ask.after = Some(next),
                None => return Ok((count as u64, false)),
            }
        }
        Ok((count as u64, true))
    }

    /// Why an execution does or does not run.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Failure> {
        let list = Ask::List { list: ListKey::Upstream(id), after: 0, limit: UPSTREAMS_TOLD + 1 };
        let asks = vec![Ask::Record(Key::Execution(id)), Ask::Opening, list];
        let loaded = self.inner.store.load(self.partition(id), asks).await.map_err(unavailable)?;
        let (mut record, mut known, mut upstreams) = (None, Opening::default(), Upstreams::default());
        for answer in loaded.answers {
            match answer {
                Answer::Execution(_, execution) => record = execution,
                Answer::Opening(opening) => known = *opening,
                Answer::List { mut executions, .. } => {
                    let more = executions.len() > UPSTREAMS_TOLD;
                    executions.truncate(UPSTREAMS_TOLD);
                    upstreams = Upstreams { executions, more };
                }
                _ => {}
            }
        }
        let execution = record.ok_or_else(|| not_found(id))?;
        Ok(explain(&execution, &known, &upstreams, loaded.now))
    }

    /// A registered worker instance.
    pub async fn worker(&self, id: InstanceId) -> Result<Option<Arc<WorkerInstance>>, Failure> {
        let (home, ask) = (id.route().partition(self.inner.partitions), Ask::Record(Key::Worker(id)));
        let loaded = self.inner.store.load(home, vec![ask]).await.map_err(unavailable)?;
        Ok(loaded.answers.into_iter().find_map(|answer| match answer {
            Answer::Worker(_, found) => found,
            _ => None,
        }))
    }

    /// Whether a worker instance is known to get work, without a look into the store. Nothing follows from a no: this
    /// engine may have missed what others have stored.
    pub async fn knows_active(&self, instance: InstanceId) -> bool {
        let (answer, known) = oneshot::channel();
        self.send(Request::KnowsActive { instance, answer }).is_ok() && known.await.unwrap_or(false)
    }

    /// Lanes that were changed from their defaults, and all registered worker instances.
    pub async fn lanes_and_workers(&self) -> Result<(Vec<Arc<Lane>>, Vec<Arc<WorkerInstance>>), Failure> {
        let (mut lanes, mut workers) = (FxHashMap::default(), FxHashMap::default());
        for n in 0..self.inner.partitions {
            let loaded =
                self.inner.store.load(PartitionId(n), vec![Ask::Opening]).await.map_err(unavailable)?;
            for answer in loaded.answers {
                let Answer::Opening(opening) = answer else { continue };
                for lane in opening
                    .lanes
                    .iter()
                    .filter(|it| Route::of_name(&it.name).partition(self.inner.partitions).0 == n)
                {
                    lanes.insert(lane.name.clone(), lane.clone());
                }
                for worker in opening
                    .workers
                    .iter()
                    .filter(|it| it.instance.route().partition(self.inner.partitions).0 == n)
                {
                    workers.insert(worker.instance, worker.clone());
                }
            }
        }
        let mut lanes: Vec<_> = lanes.into_values().collect();
        lanes.sort_by(|a: &Arc<Lane>, b| a.name.cmp(&b.name));
        let mut workers: Vec<_> = workers.into_values().collect();
        workers.sort_by_key(|it: &Arc<WorkerInstance>| it.instance);
        Ok((lanes, workers))
    }

    // ---- waiting -------------------------------------------------------------------------------------

    /// Waits until an execution has ended.
    pub async fn wait(&self, execution: ExecutionId) -> Result<Ended, Failure> {
        let (answer, ended) = oneshot::channel();
        self.send(Request::Wait { execution, answer })?;
        let ended = ended.await.unwrap_or(Err(Failure::ShuttingDown))?;
        self.with_result(ended).await
    }

    /// An end that was noticed through a record only lacks the result; read it.
    async fn with_result(&self, ended: Ended) -> Result<Ended, Failure> {
        if ended.result.is_some() || !ended.execution.has_result() {
            return Ok(ended);
        }
        let result = self.payload(ended.execution.id, Slot::Result).await?;
        Ok(Ended { result, ..ended })
    }

    /// Events from a place in the log on, as they are committed.
    pub async fn subscribe(&self, filter: EventFilter, start: Start) -> Result<Subscription, SubscribeError> {
        Subscription::start(self.inner.store.clone(), self.inner.shared.clone(), filter, start).await
    }

    // ---- looking after it ----------------------------------------------------------------------------

    /// Looks at the store and the clock now; returns when that is done.
    pub async fn nudge(&self) {
        self.inner.bulk.wake.notify_one();
        let (answer, done) = oneshot::channel();
        if self.send(Request::Nudge { answer }).is_ok() {
            let _ = done.await;
        }
    }

    pub async fn stats(&self) -> Result<MachineStats, Failure> {
        let (answer, stats) = oneshot::channel();
        self.send(Request::Stats { answer })?;
        stats.await.map_err(|_| Failure::ShuttingDown)
    }

    /// How long things took since the engine was started.
    pub fn meters(&self) -> &Meters {
        &self.inner.shared.meters
    }

    /// Stops: takes no more commands, lets commits in flight end for up to `grace`, and reports what was left.
    /// Calling it twice is harmless.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let (answer, report) = oneshot::channel();
        if self.send(Request::Shutdown { grace, answer }).is_err() {
            return ShutdownReport::default();
        }
        report.await.unwrap_or_default()
    }
}

/// A poll whose caller still waits.
struct Polling<'a> {
    engine: &'a Engine,
    number: u64,
    tasks: oneshot::Receiver<Result<Vec<Task>, Failure>>,
    over: bool,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.tasks.close();
        // The answer may have been on its way when the caller went.
        let request = match self.tasks.try_recv() {
            Ok(Ok(tasks)) => Request::GiveBack { tasks },
            Ok(Err(_)) => return,
            Err(_) => Request::PollDropped { number: self.number },
        };
        let _ = self.engine.send(request);
    }
}

pub(crate) fn unavailable(error: StoreError) -> Failure {
    Failure::Unavailable(error.to_string())
}

fn not_found(id: ExecutionId) -> Failure {
    Failure::Rejected(Rejection::NotFound { what: "execution".into(), id: id.to_string() })
}

/// The engine has a thread of its own, so that handlers that block their runtime do not delay renewals and
/// timers.
fn spawn_driver(driver: Driver) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Unavailable(format!("cannot start the engine: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let run = move || runtime.block_on(driver.run());
    std::thread::Builder::new().name("flowfabric".to_owned()).spawn(run).map_err(failed)?;
    Ok(())
}
