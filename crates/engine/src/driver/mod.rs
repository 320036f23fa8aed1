//! The driver: a thread that feeds the machine and carries out what it asks for.
//!
//! It owns everything that happens between callers and the machine: who waits for which reply, who waits for
//! the end of which execution or flow, inputs kept at hand, and how often other processes' commits are looked for.

mod answers;
mod errands;
mod flow_waits;
mod gathering;
mod outputs;
mod requests;
mod stopping;
mod waits;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll as TaskPoll;
use std::time::{Duration, Instant};

use ff_core::commands::Poll;
use ff_core::step::Step;
use ff_core::suspension::Signal;
use ff_core::{Command, Execution, ExecutionId, Flow, FlowId, InstanceId, Ms, PartitionId, Payload, Reply};
use ff_store::{Store, StoreError, StoreInfo};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::config::{EngineConfig, MachineConfig};
use crate::failure::Failure;
use crate::machine::{Input, Machine, MachineStats, Ticket, affinity};
use crate::meters::Meters;
use crate::payload_cache::PayloadCache;
use crate::tail::Tails;

/// How many endings are remembered for callers that ask a moment later.
const RECENT_MAX: usize = 8_192;
/// How large a result may be to be remembered with its ending: 64 MiB in all. Larger ones are read again.
const RECENT_RESULT_MAX: usize = 8 << 10;
/// How many executions submitted here are known to be alive.
const LIVE_MAX: usize = 1 << 18;
/// How often a sign of life is given and the ends of other processes are looked for.
const GONE_MS: Ms = 1_000;
/// And how soon again while a dead server's workers are being found out.
const GONE_SOON_MS: Ms = 50;
/// How long saying goodbye to the store may take; whoever comes later notices the end all the same.
const LEAVING: Duration = Duration::from_secs(2);
/// How many messages are taken in before the machine gets its turn.
const INTAKE_MAX: usize = 8_192;

/// An execution that has ended, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub execution: Arc<Execution>,
    pub result: Option<Payload>,
}

/// A claimed execution with everything a worker needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub execution: Arc<Execution>,
    pub input: Payload,
    /// Steps that earlier attempts, or this one before it was suspended, have recorded.
    pub steps: Vec<Step>,
    /// Signals that ended suspensions of which steps or the newest resumption tell, by number.
    pub signals: Vec<Signal>,
}

impl Task {
    pub(super) fn new(execution: Arc<Execution>, input: Payload) -> Task {
        Task { execution, input, steps: Vec::new(), signals: Vec::new() }
    }

    /// How much a worker is sent with it, about.
    pub fn bytes(&self) -> usize {
        let steps = self.steps.iter().map(|it| it.result.bytes.len());
        let signals = self.signals.iter().map(|it| it.payload.bytes.len());
        self.input.bytes.len() + steps.sum::<usize>() + signals.sum::<usize>()
    }
}

pub(crate) type Answered<T> = oneshot::Sender<Result<T, Failure>>;

// Most requests are commands; a box for each would cost more than the moves.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Request {
    Execute {
        partition: PartitionId,
        command: Command,
        answer: Answered<Reply>,
    },
    ExecuteAll {
        commands: Vec<(PartitionId, Command)>,
        answer: oneshot::Sender<Vec<Result<Reply, Failure>>>,
    },
    Poll {
        /// The caller's number for it.
        number: u64,
        poll: Arc<Poll>,
        max: usize,
        wait_ms: Ms,
        answer: Answered<Vec<Task>>,
    },
    /// The caller of a poll is gone.
    PollDropped {
        number: u64,
    },
    /// Claimed executions that nobody will run.
    GiveBack {
        tasks: Vec<Task>,
    },
    Wait {
        execution: ExecutionId,
        answer: Answered<Ended>,
    },
    WaitFlow {
        flow: FlowId,
        answer: Answered<Arc<Flow>>,
    },
    /// Tell this instance's worker which of its leases to look at.
    Watch {
        instance: InstanceId,
        disturbed: mpsc::UnboundedSender<ExecutionId>,
    },
    /// Whether this instance is known to get work.
    KnowsActive {
        instance: InstanceId,
        answer: oneshot::Sender<bool>,
    },
    /// Look at the store and the clock now.
    Nudge {
        answer: oneshot::Sender<()>,
    },
    Stats {
        answer: oneshot::Sender<MachineStats>,
    },
    Shutdown {
        grace: Duration,
        answer: oneshot::Sender<ShutdownReport>,
    },
}

/// What an engine left behind when it stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Commands that were answered `shutting_down` without having been decided or sent.
    pub abandoned: usize,
    /// Commands whose commit had been sent and not been answered when the grace was over.
    pub unanswered: usize,
}

/// What subscribers and the engine's handles share with the driver.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number the next event of each partition gets.
    pub next_events: Vec<AtomicU64>,
    pub changed: Notify,
    pub subscribers: AtomicUsize,
    /// A subscriber could not read what is there: it looks again with the next answer of the store.
    pub unread: AtomicBool,
    /// The partitions in which this server comes first; new work without a key goes there.
    pub preferred: RwLock<Vec<u16>>,
    /// The processes that serve the store.
    pub alive: RwLock<Vec<String>>,
    /// Who waits for output.
    pub tails: Tails,
    pub meters: Meters,
}

impl Shared {
    pub fn set_servers(&self, server: &str, alive: &[String]) {
        *self.alive.write().unwrap_or_else(PoisonError::into_inner) = alive.to_vec();
        let ranks = affinity::ranks(server, alive, self.next_events.len() as u16);
        let first = (0..).zip(ranks).filter(|(_, rank)| *rank == 0).map(|(partition, _)| partition);
        *self.preferred.write().unwrap_or_else(PoisonError::into_inner) = first.collect();
    }
}

enum Waiter {
    One(Answered<Reply>),
    Part {
        group: usize,
        index: usize,
    },
    Poll {
        number: u64,
        answer: Answered<Vec<Task>>,
    },
    /// The driver's own command.
    Own,
}

struct Group {
    results: Vec<Option<Result<Reply, Failure>>>,
    left: usize,
    answer: oneshot::Sender<Vec<Result<Reply, Failure>>>,
}

/// Something the store has answered.
enum Done {
    Inputs(Vec<Input>),
    /// What became of commits, and the inputs that each of them would store.
    Committed {
        commits: Vec<(Input, Vec<(ExecutionId, Payload)>)>,
        took: Duration,
    },
    Prefetched(Vec<(ExecutionId, Payload)>),
    Tasks {
        answer: Answered<Vec<Task>>,
        tasks: Result<Vec<Task>, (StoreError, Vec<Arc<Execution>>)>,
    },
    Looked {
        execution: ExecutionId,
        ended: Result<Looked, StoreError>,
    },
    LookedAtFlow {
        flow: FlowId,
        found: Result<Option<Arc<Flow>>, StoreError>,
    },
    Alive(Result<Vec<String>, StoreError>),
    Exchanged(Result<Vec<String>, StoreError>),
    Gone(Result<Vec<String>, StoreError>),
    Left,
}

enum Looked {
    Missing,
    Alive,
    Ended(Ended),
}

type Op = Pin<Box<dyn Future<Output = Done> + Send>>;

pub(crate) struct Driver {
    /// The name under which this process serves the store.
    server: String,
    store: Arc<dyn Store>,
    config: EngineConfig,
    machine: Machine,
    shared: Arc<Shared>,
    requests: mpsc::UnboundedReceiver<Request>,
    ops: FuturesUnordered<Op>,
    started: Instant,
    next_ticket: Ticket,
    slots: FxHashMap<Ticket, Waiter>,
    groups: FxHashMap<usize, Group>,
    next_group: usize,
    inputs: PayloadCache,
    waits: FxHashMap<ExecutionId, Vec<Answered<Ended>>>,
    flow_waits: FxHashMap<FlowId, Vec<Answered<Arc<Flow>>>>,
    live: FxHashSet<ExecutionId>,
    recent: FxHashMap<ExecutionId, Ended>,
    recent_order: VecDeque<ExecutionId>,
    watchers: FxHashMap<InstanceId, mpsc::UnboundedSender<ExecutionId>>,
    /// When it was last told that the store takes no writes.
    failure_told_at: Ms,
    /// Polls that have not been answered, by their caller's number.
    polls: FxHashMap<u64, Ticket>,
    nudges: Vec<oneshot::Sender<()>>,
    /// Servers that have ended and whose workers are being buried.
    burying: FxHashSet<String>,
    /// When it was first heard that a server has ended.
    gone_since: FxHashMap<String, Ms>,
    next_status: Ms,
    next_gone: Ms,
    gone_asked: bool,
    /// Whether a sign of life is under way.
    beating: bool,
    errands: errands::Errands,
    gathering: gathering::Gathering,
    shutdown: Option<(Ms, Vec<oneshot::Sender<ShutdownReport>>)>,
    /// What was left when it was over.
    report: ShutdownReport,
}

impl Driver {
    pub fn new(
        store: Arc<dyn Store>,
        config: EngineConfig,
        shared: Arc<Shared>,
        requests: mpsc::UnboundedReceiver<Request>,
        server: String,
        seed: u64,
    ) -> Driver {
        let StoreInfo { partitions, lines, .. } = store.info();
        // Where commits are flushed one after the other, an errand would be in the way of the commit that it asks for.
        let settings = MachineConfig { errands: lines > 1, ..config.machine.clone() };
        let machine = Machine::new(partitions, config.limits.clone(), settings, seed);
        Driver {
            server,
            inputs: PayloadCache::new(config.payload_cache_bytes),
            store,
            config,
            machine,
            shared,
            requests,
            ops: FuturesUnordered::new(),
            started: Instant::now(),
            next_ticket: 1,
            slots: FxHashMap::default(),
            groups: FxHashMap::default(),
            next_group: 0,
            waits: FxHashMap::default(),
            flow_waits: FxHashMap::default(),
            live: FxHashSet::default(),
            recent: FxHashMap::default(),
            recent_order: VecDeque::new(),
            watchers: FxHashMap::default(),
            failure_told_at: Ms::MIN / 2,
            polls: FxHashMap::default(),
            nudges: Vec::new(),
            burying: FxHashSet::default(),
            gone_since: FxHashMap::default(),
            next_status: 0,
            next_gone: 0,
            gone_asked: false,
            beating: false,
            errands: errands::Errands::default(),
            gathering: gathering::Gathering::default(),
            shutdown: None,
            report: ShutdownReport::default(),
        }
    }

    /// Local time: it only has to go forward. Tests can replace it by a clock they move.
    fn at(&self) -> Ms {
        match &self.config.local_clock {
            Some(clock) => clock.now(),
            None => Ms::try_from(self.started.elapsed().as_millis()).unwrap_or(Ms::MAX),
        }
    }

    /// Says which servers are alive.
    pub fn set_servers(&mut self, alive: &[String]) {
        self.errands.are_given = self.machine.gives_errands() && alive.len() > 1;
        self.machine.set_servers(&self.server, alive);
        self.shared.set_servers(&self.server, alive);
    }

    pub async fn run(mut self) {
        loop {
            self.wait().await;
            self.gather();
            let at = self.at();
            self.look_around(at);
            self.machine.turn(at);
            self.carry_out();
            self.exchange(at);
            if self.is_over(at) {
                // Whoever asked may close the store as soon as it is answered.
                let _ = tokio::time::timeout(LEAVING, self.leave()).await;
                return self.say_goodbye();
            }
        }
    }

    /// Signs off. A sign of life that is under way would enter this server again, so it is waited for.
    async fn leave(&mut self) {
        while self.beating {
            match self.ops.next().await {
                Some(Done::Alive(_)) | None => self.beating = false,
                Some(_) => {}
            }
        }
        let _ = self.store.leave(self.server.clone()).await;
    }

    /// Waits until something arrives or is due, then takes in everything that is at hand.
    async fn wait(&mut self) {
        let at = self.at();
        let sleep = match (&self.config.local_clock, self.next_wake(at)) {
            (None, Some(wake)) => Some(Duration::from_millis(u64::try_from((wake - at).max(0)).unwrap_or(0))),
            _ => None,
        };
        let first = {
            let Driver { ops, requests, .. } = self;
            let timer = async {
                match sleep {
                    Some(duration) => tokio::time::sleep(duration).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(done) = ops.next(), if !ops.is_empty() => Some(Ok(done)),
                request = requests.recv() => Some(Err(request)),
                () = timer => None,
            }
        };
        match first {
            Some(Ok(done)) => self.done(done),
            Some(Err(Some(request))) => self.request(request),
            // Every handle is gone: stop as if asked to, without a grace.
            Some(Err(None)) => self.begin_shutdown(Duration::ZERO, None),
            None => {}
        }
        for _ in 0..INTAKE_MAX {
            match self.requests.try_recv() {
                Ok(request) => self.request(request),
                Err(_) => break,
            }
        }
        while let Some(done) = next_ready(&mut self.ops).await {
            self.done(done);
        }
    }

    fn next_wake(&self, at: Ms) -> Option<Ms> {
        // Whoever has been asked and does not answer is not asked again, so that is nothing to wake for.
        let gone = (!self.gone_asked && !self.beating).then_some(self.next_gone);
        let own = [self.next_status].into_iter().chain(gone);
        let shutdown = self.shutdown.as_ref().map(|(until, _)| *until);
        let exchange = self.next_exchange();
        self.machine.next_wake(at).into_iter().chain(own).chain(exchange).chain(shutdown).min()
    }

    fn somebody_waits(&self) -> bool {
        self.machine.has_waiting_polls()
            || !self.waits.is_empty()
            || !self.flow_waits.is_empty()
            || !self.watchers.is_empty()
            || self.shared.subscribers.load(Ordering::Relaxed) > 0
    }

    /// How long it may take until something is noticed that other processes did.
    fn pause(&self) -> Ms {
        if self.somebody_waits() { self.config.status_busy_ms } else { self.config.status_idle_ms }
    }

    /// Looks for what other processes did, now and then.
    fn look_around(&mut self, at: Ms) {
        let pause = self.pause();
        if at >= self.next_status {
            self.next_status = at + pause;
            self.machine.ask_status();
        }
        // Whoever has just begun to wait does not sit out the long pause.
        self.next_status = self.next_status.min(at + pause);
        if at >= self.next_gone && !self.gone_asked && !self.beating {
            self.next_gone = at + GONE_MS;
            (self.gone_asked, self.beating) = (true, true);
            self.forget_gone();
            let (store, server) = (self.store.clone(), self.server.clone());
            self.ops.push(Box::pin(async move { Done::Alive(store.beat(server).await) }));
            let store = self.store.clone();
            self.ops.push(Box::pin(async move { Done::Gone(store.gone().await) }));
        }
    }

    /// Nobody here waits any more for what nobody here will hear of.
    fn forget_gone(&mut self) {
        self.watchers.retain(|_, watcher| !watcher.is_closed());
        self.waits.retain(|_, answers| {
            answers.retain(|answer| !answer.is_closed());
            !answers.is_empty()
        });
        self.flow_waits.retain(|_, answers| {
            answers.retain(|answer| !answer.is_closed());
            !answers.is_empty()
        });
    }
}

/// The next operation that has already ended, without waiting for one.
async fn next_ready(ops: &mut FuturesUnordered<Op>) -> Option<Done> {
    std::future::poll_fn(|context| match ops.poll_next_unpin(context) {
        TaskPoll::Ready(done) => TaskPoll::Ready(done),
        TaskPoll::Pending => TaskPoll::Ready(None),
    })
    .await
}
