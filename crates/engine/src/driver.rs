//! The driver: a thread that feeds the machine and carries out what it asks for.
//!
//! It owns everything that happens between callers and the machine: who waits for which reply, who waits for
//! the end of which execution, inputs kept at hand, and how often other processes' commits are looked for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll as TaskPoll;
use std::time::{Duration, Instant};

use ff_core::commands::{BuryWorker, Poll, Release};
use ff_core::key::{Ask, Key};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{Command, Execution, ExecutionId, InstanceId, Ms, PartitionId, Payload, Reply};
use ff_store::{Store, StoreError};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::config::EngineConfig;
use crate::failure::Failure;
use crate::machine::{Input, Machine, MachineStats, News, Output, Ticket};
use crate::payload_cache::PayloadCache;

/// How many endings are remembered for callers that ask a moment later.
const RECENT_MAX: usize = 8_192;
/// How many executions submitted here are known to be alive.
const LIVE_MAX: usize = 1 << 18;
/// How often the ends of other processes are looked for.
const GONE_MS: Ms = 1_000;
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
    /// Tell this instance's worker which of its leases to look at.
    Watch {
        instance: InstanceId,
        disturbed: mpsc::UnboundedSender<ExecutionId>,
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
    Prefetched(Vec<(ExecutionId, Payload)>),
    Tasks { answer: Answered<Vec<Task>>, tasks: Result<Vec<Task>, (StoreError, Vec<Arc<Execution>>)> },
    Looked { execution: ExecutionId, ended: Result<Looked, StoreError> },
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
    live: FxHashSet<ExecutionId>,
    recent: FxHashMap<ExecutionId, Ended>,
    recent_order: VecDeque<ExecutionId>,
    watchers: FxHashMap<InstanceId, mpsc::UnboundedSender<ExecutionId>>,
    /// Polls that have not been answered, by their caller's number.
    polls: FxHashMap<u64, Ticket>,
    nudges: Vec<oneshot::Sender<()>>,
    /// Servers that have ended and whose workers are being buried.
    burying: FxHashSet<String>,
    next_status: Ms,
    next_gone: Ms,
    gone_asked: bool,
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
        seed: u64,
    ) -> Driver {
        let partitions = store.info().partitions;
        let machine = Machine::new(partitions, config.limits.clone(), config.machine.clone(), seed);
        Driver {
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
            live: FxHashSet::default(),
            recent: FxHashMap::default(),
            recent_order: VecDeque::new(),
            watchers: FxHashMap::default(),
            polls: FxHashMap::default(),
            nudges: Vec::new(),
            burying: FxHashSet::default(),
            next_status: 0,
            next_gone: 0,
            gone_asked: false,
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

    pub async fn run(mut self, server: String) {
        loop {
            self.wait().await;
            let at = self.at();
            self.look_around(at);
            self.machine.turn(at);
            self.carry_out(at);
            if self.is_over(at) {
                // Whoever asked may close the store as soon as it is answered.
                let _ = tokio::time::timeout(LEAVING, self.store.leave(server)).await;
                return self.say_goodbye();
            }
        }
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
        let own = self.next_status.min(self.next_gone);
        let shutdown = self.shutdown.as_ref().map(|(until, _)| *until);
        self.machine.next_wake(at).into_iter().chain([own]).chain(shutdown).min()
    }

    fn somebody_waits(&self) -> bool {
        self.machine.has_waiting_polls()
            || !self.waits.is_empty()
            || !self.watchers.is_empty()
            || self.shared.subscribers.load(Ordering::Relaxed) > 0
    }

    /// Looks for what other processes did, now and then.
    fn look_around(&mut self, at: Ms) {
        let pause =
            if self.somebody_waits() { self.config.status_busy_ms } else { self.config.status_idle_ms };
        if at >= self.next_status {
            self.next_status = at + pause;
            self.machine.ask_status();
        }
        // Whoever has just begun to wait does not sit out the long pause.
        self.next_status = self.next_status.min(at + pause);
        if at >= self.next_gone && !self.gone_asked {
            self.next_gone = at + GONE_MS;
            self.gone_asked = true;
            self.forget_gone();
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
    }

    // ---- requests ------------------------------------------------------------------------------------

    fn ticket(&mut self, slot: Waiter) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.slots.insert(ticket, slot);
        ticket
    }

    fn request(&mut self, request: Request) {
        if self.shutdown.is_some() {
            return self.refuse(request);
        }
        let at = self.at();
        let give_up_at = at + self.config.command_timeout_ms;
        if matches!(request, Request::Wait { .. } | Request::Poll { .. } | Request::Watch { .. }) {
            // From now on somebody waits for what other processes do.
            self.next_status = self.next_status.min(at + self.config.status_busy_ms);
        }
        match request {
            Request::Execute { partition, command, answer } => {
                self.keep_input(&command);
                let ticket = self.ticket(Waiter::One(answer));
                self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at });
            }
            Request::ExecuteAll { commands, answer } => {
                let group = self.next_group;
                self.next_group += 1;
                let count = commands.len();
                if count == 0 {
                    let _ = answer.send(Vec::new());
                    return;
                }
                self.groups.insert(group, Group { results: vec![None; count], left: count, answer });
                for (index, (partition, command)) in commands.into_iter().enumerate() {
                    self.keep_input(&command);
                    let ticket = self.ticket(Waiter::Part { group, index });
                    self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at });
                }
            }
            Request::Poll { number, poll, max, wait_ms, answer } => {
                let ticket = self.ticket(Waiter::Poll { number, answer });
                self.polls.insert(number, ticket);
                self.machine.accept(at, Input::Poll { ticket, poll, max, give_up_at: at + wait_ms });
            }
            Request::PollDropped { number } => self.drop_poll(number),
            Request::GiveBack { tasks } => self.give_back(tasks.into_iter().map(|it| it.execution).collect()),
            Request::Wait { execution, answer } => self.add_wait(execution, answer),
            Request::Watch { instance, disturbed } => drop(self.watchers.insert(instance, disturbed)),
            Request::Nudge { answer } => {
                self.nudges.push(answer);
                self.next_status = at;
                self.machine.ask_status();
            }
            Request::Stats { answer } => drop(answer.send(self.machine.stats())),
            Request::Shutdown { grace, answer } => self.begin_shutdown(grace, Some(answer)),
        }
    }

    fn refuse(&mut self, request: Request) {
        let failure = || Err(Failure::ShuttingDown);
        match request {
            Request::Execute { answer, .. } => drop(answer.send(failure())),
            Request::ExecuteAll { commands, answer } => {
                drop(answer.send(commands.iter().map(|_| failure()).collect()));
            }
            Request::Poll { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
            Request::Wait { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
            Request::Watch { .. } | Request::Nudge { .. } | Request::PollDropped { .. } => {}
            // The worker leaves with this process; its leases return with it.
            Request::GiveBack { .. } => {}
            Request::Stats { answer } => drop(answer.send(self.machine.stats())),
            Request::Shutdown { grace, answer } => self.begin_shutdown(grace, Some(answer)),
        }
    }

    fn keep_input(&mut self, command: &Command) {
        if let Command::Create(create) = command
            && create.start.is_none()
        {
            self.inputs.submitted(create.id, create.input.clone());
        }
    }

    // ---- the machine's outputs -----------------------------------------------------------------------

    fn carry_out(&mut self, _at: Ms) {
        for output in self.machine.take_outputs() {
            let store = self.store.clone();
            match output {
                Output::Load { token, asks } => self.ops.push(Box::pin(async move {
                    let result = store.load(token.partition, asks).await;
                    Done::Inputs(vec![Input::Loaded { token, result }])
                })),
                Output::Commit(commits) => self.ops.push(Box::pin(async move {
                    let named: Vec<_> = commits.iter().map(|commit| (commit.partition, commit.id)).collect();
                    let outcomes = store.commit(commits).await;
                    let inputs = named.into_iter().zip(outcomes);
                    Done::Inputs(
                        inputs
                            .map(|((partition, id), outcome)| Input::Committed { partition, id, outcome })
                            .collect(),
                    )
                })),
                Output::Written { partition, number } => self.ops.push(Box::pin(async move {
                    let result = store.written(partition, number).await;
                    Done::Inputs(vec![Input::Written { partition, number, result }])
                })),
                Output::Missed { partition, number } => self.ops.push(Box::pin(async move {
                    let result = store.missed(partition, number).await;
                    Done::Inputs(vec![Input::Missed { partition, result }])
                })),
                Output::Status => self
                    .ops
                    .push(Box::pin(async move { Done::Inputs(vec![Input::Status(store.status().await)]) })),
                Output::Reply { ticket, result } => self.reply(ticket, result),
                Output::News { partition, news } => self.news(partition, news),
                Output::Foreign { partition, keys, next_event } => self.foreign(partition, keys, next_event),
            }
        }
    }

    fn reply(&mut self, ticket: Ticket, result: Result<Reply, Failure>) {
        let Some(slot) = self.slots.remove(&ticket) else { return };
        if let Ok(Reply::Created { execution, existing: false }) = &result
            && self.live.len() < LIVE_MAX
            && !self.recent.contains_key(execution)
        {
            self.live.insert(*execution);
        }
        if let Ok(Reply::Changed(execution)) = &result
            && execution.end().is_none()
        {
            // A replay: its earlier end is not the one that is waited for from now on.
            self.recent.remove(&execution.id);
        }
        match slot {
            Waiter::One(answer) => drop(answer.send(result)),
            Waiter::Part { group, index } => {
                let Some(it) = self.groups.get_mut(&group) else { return };
                it.results[index] = Some(result);
                it.left -= 1;
                if it.left == 0
                    && let Some(Group { results, answer, .. }) = self.groups.remove(&group)
                {
                    let _ = answer.send(results.into_iter().flatten().collect());
                }
            }
            Waiter::Poll { number, answer } => {
                self.polls.remove(&number);
                match result {
                    Ok(Reply::Claimed(claimed)) => self.hand_out(claimed, answer),
                    Ok(_) => drop(answer.send(Ok(Vec::new()))),
                    Err(failure) => drop(answer.send(Err(failure))),
                }
            }
            Waiter::Own => {}
        }
    }

    /// Forgets a poll whose caller is gone, unless a claim for it is on its way; that one is given back.
    fn drop_poll(&mut self, number: u64) {
        if let Some(ticket) = self.polls.get(&number).copied()
            && self.machine.drop_poll(ticket)
        {
            self.polls.remove(&number);
            self.slots.remove(&ticket);
        }
    }

    /// Gives claimed executions to their worker, with their inputs.
    fn hand_out(&mut self, claimed: Vec<Arc<Execution>>, answer: Answered<Vec<Task>>) {
        let mut tasks = Vec::with_capacity(claimed.len());
        let mut missing = Vec::new();
        for execution in claimed {
            match self.inputs.take(execution.id) {
                Some(input) => tasks.push(Task { execution, input }),
                None => missing.push(execution),
            }
        }
        if missing.is_empty() {
            return self.send_tasks(answer, tasks);
        }
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let keys = missing.iter().map(|it| PayloadKey { execution: it.id, slot: Slot::Input }).collect();
            let read = store.payloads(keys).await;
            let tasks = match read {
                Ok(inputs) => {
                    let read = missing.into_iter().zip(inputs);
                    let read = read.filter_map(|(execution, input)| Some(Task { execution, input: input? }));
                    Ok(tasks.into_iter().chain(read).collect())
                }
                Err(error) => Err((error, tasks.into_iter().map(|it| it.execution).chain(missing).collect())),
            };
            Done::Tasks { answer, tasks }
        }));
    }

    /// A worker that is gone gets nothing: its leases go back without waiting for them to run out.
    fn send_tasks(&mut self, answer: Answered<Vec<Task>>, tasks: Vec<Task>) {
        if let Err(Ok(tasks)) = answer.send(Ok(tasks)) {
            self.give_back(tasks.into_iter().map(|task| task.execution).collect());
        }
    }

    fn give_back(&mut self, executions: Vec<Arc<Execution>>) {
        let at = self.at();
        let partitions = self.store.info().partitions;
        for execution in executions {
            let partition = execution.id.route().partition(partitions);
            let command = Release { fence: execution.fence() }.into();
            let ticket = self.ticket(Waiter::Own);
            self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at: Ms::MAX });
        }
    }

    fn news(&mut self, partition: PartitionId, news: News) {
        self.publish(partition, news.next_event);
        for (execution, result) in news.ended {
            let id = execution.id;
            self.live.remove(&id);
            let ended = Ended { execution, result };
            if let Some(waits) = self.waits.remove(&id) {
                for answer in waits {
                    let _ = answer.send(Ok(ended.clone()));
                }
            }
            if self.recent.insert(id, ended).is_none() {
                self.recent_order.push_back(id);
            }
            if self.recent_order.len() > RECENT_MAX
                && let Some(oldest) = self.recent_order.pop_front()
            {
                self.recent.remove(&oldest);
            }
        }
        for id in news.removed {
            self.recent.remove(&id);
            self.live.remove(&id);
        }
        for (instance, execution) in news.disturbed {
            if let Some(watcher) = self.watchers.get(&instance)
                && watcher.send(execution).is_err()
            {
                self.watchers.remove(&instance);
            }
        }
    }

    fn publish(&self, partition: PartitionId, next_event: u64) {
        self.shared.next_events[partition.index()].fetch_max(next_event, Ordering::Release);
        if self.shared.subscribers.load(Ordering::Relaxed) > 0 {
            self.shared.changed.notify_waiters();
        }
    }

    /// Another process has committed: look after everybody here who waits for what it changed.
    fn foreign(&mut self, partition: PartitionId, keys: Option<Vec<Key>>, next_event: u64) {
        self.publish(partition, next_event);
        let partitions = self.store.info().partitions;
        let here = |id: &ExecutionId| id.route().partition(partitions) == partition;
        let changed: Vec<ExecutionId> = match keys {
            Some(keys) => {
                let executions = keys.into_iter().filter_map(|key| match key {
                    Key::Execution(id) => Some(id),
                    _ => None,
                });
                executions.collect()
            }
            None => self.waits.keys().chain(&self.live).copied().filter(here).collect(),
        };
        for id in changed {
            self.recent.remove(&id);
            self.live.remove(&id);
            if self.waits.contains_key(&id) {
                self.look(id);
            }
            // The record says nothing of who held the lease before; every worker here looks for itself.
            self.watchers.retain(|_, watcher| watcher.send(id).is_ok());
        }
    }

    // ---- waiting for ends ----------------------------------------------------------------------------

    fn add_wait(&mut self, execution: ExecutionId, answer: Answered<Ended>) {
        if let Some(ended) = self.recent.get(&execution) {
            let _ = answer.send(Ok(ended.clone()));
            return;
        }
        let waits = self.waits.entry(execution).or_default();
        waits.retain(|answer| !answer.is_closed());
        waits.push(answer);
        if !self.live.contains(&execution) {
            self.look(execution);
        }
    }

    fn look(&mut self, execution: ExecutionId) {
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let ended = look(&*store, execution).await;
            Done::Looked { execution, ended }
        }));
    }

    // ---- the store's answers -------------------------------------------------------------------------

    fn done(&mut self, done: Done) {
        let at = self.at();
        match done {
            Done::Inputs(inputs) => {
                for input in inputs {
                    if let Input::Loaded { result: Ok(loaded), .. } = &input {
                        let answers = loaded.answers.iter();
                        let ready = answers.filter_map(|answer| match answer {
                            Answer::Ready { executions, .. } => Some(executions),
                            _ => None,
                        });
                        let executions: Vec<_> = ready.flatten().cloned().collect();
                        self.prefetch(executions);
                    }
                    let is_status = matches!(input, Input::Status(_));
                    if let Input::Status(Ok((_, statuses))) = &input {
                        statuses.iter().for_each(|status| self.publish(status.partition, status.next_event));
                    }
                    self.machine.accept(at, input);
                    if is_status {
                        self.nudges.drain(..).for_each(|answer| answer.send(()).unwrap_or(()));
                    }
                }
            }
            Done::Prefetched(inputs) => {
                inputs.into_iter().for_each(|(id, input)| self.inputs.read_ahead(id, input));
            }
            Done::Tasks { answer, tasks } => match tasks {
                Ok(tasks) => self.send_tasks(answer, tasks),
                Err((error, executions)) => {
                    self.give_back(executions);
                    let _ = answer.send(Err(Failure::Unavailable(error.to_string())));
                }
            },
            Done::Looked { execution, ended } => self.looked(execution, ended),
            Done::Gone(gone) => {
                self.gone_asked = false;
                if let Ok(gone) = gone {
                    gone.into_iter().for_each(|server| self.bury(at, server));
                }
            }
            Done::Left => {}
        }
    }

    fn looked(&mut self, execution: ExecutionId, ended: Result<Looked, StoreError>) {
        let answer = match ended {
            Ok(Looked::Alive) => return,
            Ok(Looked::Ended(ended)) => Ok(ended),
            Ok(Looked::Missing) => Err(Failure::Rejected(ff_core::Rejection::NotFound {
                what: "execution",
                id: execution.to_string(),
            })),
            Err(error) => Err(Failure::Unavailable(error.to_string())),
        };
        for wait in self.waits.remove(&execution).unwrap_or_default() {
            let _ = wait.send(answer.clone());
        }
    }

    /// Reads the inputs of executions that are about to be claimed.
    fn prefetch(&mut self, executions: Vec<Arc<Execution>>) {
        let mut room = self.config.payload_cache_bytes as u64 / 2;
        let wanted = executions.into_iter().filter(|it| !self.inputs.contains(it.id)).take_while(|it| {
            let fits = it.spec.input_bytes < room;
            room = room.saturating_sub(it.spec.input_bytes + 128);
            fits
        });
        let keys: Vec<_> = wanted.map(|it| PayloadKey { execution: it.id, slot: Slot::Input }).collect();
        if keys.is_empty() {
            return;
        }
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let read = store.payloads(keys.clone()).await.unwrap_or_default();
            let found = keys.into_iter().zip(read).filter_map(|(key, input)| Some((key.execution, input?)));
            Done::Prefetched(found.collect())
        }));
    }

    /// A server process has ended: its embedded workers are dead and their leases return at once.
    fn bury(&mut self, at: Ms, server: String) {
        let partitions = self.store.info().partitions;
        let all = (0..partitions).flat_map(|n| self.machine.workspace(PartitionId(n)).workers());
        let theirs: FxHashSet<InstanceId> = all
            .filter(|it| it.server.as_deref() == Some(&server) && it.died_at.is_none())
            .map(|it| it.instance)
            .collect();
        if theirs.is_empty() {
            // Nothing is left to do, or another server has done it.
            if self.burying.remove(&server) || self.machine.is_idle() {
                let store = self.store.clone();
                self.ops.push(Box::pin(async move {
                    let _ = store.leave(server).await;
                    Done::Left
                }));
            }
            return;
        }
        self.burying.insert(server.clone());
        for instance in theirs {
            let cause = format!("process {server} has ended").into_boxed_str();
            let command = BuryWorker { instance, actor: "system".into(), cause }.into();
            let ticket = self.ticket(Waiter::Own);
            let partition = instance.route().partition(partitions);
            self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at: at + GONE_MS });
        }
    }

    // ---- stopping ------------------------------------------------------------------------------------

    fn begin_shutdown(&mut self, grace: Duration, answer: Option<oneshot::Sender<ShutdownReport>>) {
        let until = self.at().saturating_add(Ms::try_from(grace.as_millis()).unwrap_or(Ms::MAX / 4));
        let (_, answers) = self.shutdown.get_or_insert((until, Vec::new()));
        answers.extend(answer);
    }

    fn is_over(&mut self, at: Ms) -> bool {
        let Some((until, _)) = &self.shutdown else { return false };
        let in_flight = self.machine.stats().in_flight;
        // Under a clock that tests move the grace does not pass by itself; only what the store has is waited for.
        let busy = if self.config.local_clock.is_some() { in_flight > 0 } else { !self.machine.is_idle() };
        if busy && at < *until {
            return false;
        }
        let abandoned = self.machine.abandon();
        self.carry_out(at);
        let unanswered = if in_flight == 0 { 0 } else { self.slots.len() };
        self.report = ShutdownReport { abandoned, unanswered };
        for (_, slot) in self.slots.drain() {
            match slot {
                Waiter::One(answer) => drop(answer.send(Err(Failure::OutcomeUnknown))),
                Waiter::Poll { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
                Waiter::Part { .. } | Waiter::Own => {}
            }
        }
        for (_, Group { results, answer, .. }) in self.groups.drain() {
            let results = results.into_iter().map(|result| result.unwrap_or(Err(Failure::OutcomeUnknown)));
            let _ = answer.send(results.collect());
        }
        for (_, waits) in self.waits.drain() {
            waits.into_iter().for_each(|answer| drop(answer.send(Err(Failure::ShuttingDown))));
        }
        true
    }

    fn say_goodbye(mut self) {
        if let Some((_, answers)) = self.shutdown.take() {
            answers.into_iter().for_each(|answer| drop(answer.send(self.report.clone())));
        }
    }
}

/// Reads where an execution stands, and its result if it has ended.
async fn look(store: &dyn Store, execution: ExecutionId) -> Result<Looked, StoreError> {
    let partition = execution.route().partition(store.info().partitions);
    let loaded = store.load(partition, vec![Ask::Record(Key::Execution(execution))]).await?;
    let Some(Answer::Execution(_, Some(record))) = loaded.answers.into_iter().next() else {
        return Ok(Looked::Missing);
    };
    let Some(end) = record.end() else { return Ok(Looked::Alive) };
    let result = match end.result_bytes {
        Some(_) => store.payloads(vec![PayloadKey { execution, slot: Slot::Result }]).await?.pop().flatten(),
        None => None,
    };
    Ok(Looked::Ended(Ended { execution: record, result }))
}

/// The next operation that has already ended, without waiting for one.
async fn next_ready(ops: &mut FuturesUnordered<Op>) -> Option<Done> {
    std::future::poll_fn(|context| match ops.poll_next_unpin(context) {
        TaskPoll::Ready(done) => TaskPoll::Ready(done),
        TaskPoll::Pending => TaskPoll::Ready(None),
    })
    .await
}
