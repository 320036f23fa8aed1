//! A bench to try commands on: one workspace, a clock that stands still until told otherwise, and a store made
//! of maps. After every commit all invariants are checked, so a test says only what it is about.

mod graph;
mod invariants;
mod mail;
mod model;

use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use model::Model;

use super::*;
use crate::agenda::{AgendaEntry, AgendaKey, Subject};
use crate::attempt::{ErrorClass, Progress, TaskError};
use crate::change::Changes;
use crate::class::Capabilities;
use crate::execution::{Execution, Fence};
use crate::flow::{CancelPolicy, Join};
use crate::id::{ExecutionId, FlowId, InstanceId, Route};
use crate::inbox::Posted;
use crate::key::Ask;
use crate::lane::LaneMode;
use crate::name::{Capability, FrameKind, Kind, LaneName, Namespace, SignalName, StepName, WorkerName};
use crate::payload::Payload;
use crate::policy::{Backoff, Jitter};
use crate::registry::{Action, BulkCounts, Role, SecretHash, Selection};
use crate::step::{StepKey, StepKind, StepPlace};
use crate::stream::FrameMode;
use crate::suspension::token::Secret;
use crate::suspension::{Condition, Match, WaitpointId};

pub(crate) const START: Ms = 1_800_000_000_000;

pub(crate) fn lane(name: &str) -> LaneName {
    LaneName::parse(name).unwrap()
}

pub(crate) fn kind(name: &str) -> Kind {
    Kind::parse(name).unwrap()
}

pub(crate) fn namespace(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

pub(crate) fn capabilities(words: &[&str]) -> Capabilities {
    Capabilities::new(words.iter().map(|word| Capability::parse(word).unwrap()))
}

/// A policy whose backoff is 1 s, 2 s, 4 s… without jitter.
pub(crate) fn policy() -> crate::policy::Policy {
    let backoff = Backoff { jitter: Jitter::None, ..Backoff::default() };
    crate::policy::Policy { backoff, ..Default::default() }
}

/// What stays in memory after a commit; everything else is read again when it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Everything,
    Windows,
    Nothing,
}

/// After which commits all invariants are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    Every,
    /// Only when the bench goes away, where the store is too large to look at all of it again and again.
    Last,
}

pub(crate) struct Bench {
    pub ws: Workspace,
    pub store: Model,
    pub now: Ms,
    /// A worker that is registered from the start.
    pub worker: InstanceId,
    /// How many commands make a batch; 0: until [`commit`](Bench::commit) is called.
    pub batch_size: usize,
    pub memory: Memory,
    pub checks: Checks,
    undecided: usize,
    /// How often something had to be read before a command could be decided.
    pub reads: usize,
    in_flight: VecDeque<(u64, Changes)>,
    /// The newest batch of the workspace that is stored, and up to which commit it knows the store.
    settled: u64,
    known: u64,
    /// The workspace of another server, with the same two numbers.
    other: (Workspace, u64, u64),
    pub last_id: u64,
    /// Who should look at which lease, by what the server learned when it was switched to.
    pub disturbed: Vec<(InstanceId, ExecutionId)>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.checks == Checks::Last && !std::thread::panicking() {
            invariants::check(&self.store);
            self.check_windows();
        }
    }
}

impl Bench {
    pub fn new() -> Bench {
        Bench::of(PartitionId(0), 1, Limits::default())
    }

    pub fn of(partition: PartitionId, partitions: u16, limits: Limits) -> Bench {
        let limits = Arc::new(limits);
        let workspace = || Workspace::new(partition, partitions, limits.clone());
        let mut bench = Bench {
            ws: workspace(),
            store: Model::default(),
            now: START,
            worker: InstanceId::from_parts(START, Route(partition.0), 1),
            batch_size: 1,
            memory: Memory::Everything,
            checks: Checks::Every,
            undecided: 0,
            reads: 0,
            in_flight: VecDeque::new(),
            settled: 0,
            known: 0,
            other: (workspace(), 0, 0),
            last_id: 1,
            disturbed: Vec::new(),
        };
        bench.reopen();
        bench.ok(bench.registration(bench.worker));
        bench
    }

    /// Forgets everything that is not stored and reads what a server reads when it starts.
    pub fn reopen(&mut self) {
        self.in_flight.clear();
        self.ws.forget_all();
        self.open();
    }

    fn open(&mut self) {
        self.undecided = 0;
        self.known = self.store.log.len() as u64;
        self.ws.learn(self.store.answer(&Ask::Opening));
        self.refill_agenda(usize::MAX);
    }

    fn refill_agenda(&mut self, limit: usize) {
        if let Some(after) = self.ws.agenda_mut().start_refill() {
            self.ws.learn(self.store.answer(&Ask::Agenda { after, limit }));
        }
    }

    // ---- running commands --------------------------------------------------------------------------------

    /// Decides a command, loading what it needs, and commits when the batch is full.
    pub fn run(&mut self, command: impl Into<Command>) -> Result<Reply, Rejection> {
        let command = command.into();
        for _ in 0..2_000 {
            match decide(&mut self.ws, self.now, &command) {
                Ok(reply) => {
                    self.undecided += 1;
                    self.commit_if_full();
                    return Ok(reply);
                }
                Err(Stop::Reject(rejection)) => {
                    if self.undecided == 0 {
                        assert!(self.ws.take_batch(self.now).is_empty(), "a rejection changes nothing");
                    }
                    return Err(rejection);
                }
                Err(Stop::Need(asks)) => {
                    self.reads += 1;
                    asks.iter().for_each(|ask| self.load(ask));
                }
            }
        }
        panic!("{command:?} needs something for ever");
    }

    fn load(&mut self, ask: &Ask) {
        if let Ask::Ready { lane, class, after, .. } = ask {
            let window = self.ws.ready_mut().window_mut(lane, class).expect("only windows are refilled");
            assert_eq!(window.start_refill(), Some(*after));
            // Small pages, so that windows have ends.
            let ask =
                Ask::Ready { lane: lane.clone(), class: class.clone(), after: *after, limit: self.page() };
            return self.ws.learn(self.store.answer(&ask));
        }
        if let Ask::List { list, after, .. } = ask {
            // Small pages, so that lists have ends.
            let ask = Ask::List { list: *list, after: *after, limit: self.page() };
            return self.ws.learn(self.store.answer(&ask));
        }
        self.ws.learn(self.store.answer(ask));
    }

    fn page(&self) -> usize {
        if self.memory == Memory::Nothing { 2 } else { 1_024 }
    }

    pub fn ok(&mut self, command: impl Into<Command>) -> Reply {
        self.run(command).expect("the command is allowed")
    }

    pub fn refused(&mut self, command: impl Into<Command>) -> Rejection {
        self.run(command).expect_err("the command is refused")
    }

    fn commit_if_full(&mut self) {
        if self.batch_size > 0 && self.undecided >= self.batch_size {
            self.commit();
        }
    }

    /// Writes what was decided and checks everything.
    pub fn commit(&mut self) {
        self.send();
        while self.land() {}
    }

    /// Sends what was decided to the store, which has not got it before it [lands](Bench::land).
    pub fn send(&mut self) {
        self.undecided = 0;
        self.in_flight.push_back((self.ws.batch(), self.ws.take_batch(self.now)));
    }

    /// The oldest batch that was sent becomes part of the store. Returns whether there was one.
    pub fn land(&mut self) -> bool {
        let Some((number, changes)) = self.in_flight.pop_front() else { return false };
        if self.checks == Checks::Last {
            self.store.apply(changes);
            (self.settled, self.known) = (number, self.store.log.len() as u64);
            self.ws.evict(number, usize::MAX, usize::MAX, usize::MAX / 4);
            self.refill_agenda(1);
            return true;
        }
        let before = self.store.executions.clone();
        let first_event = self.store.events.len();
        self.store.apply(changes);
        invariants::check(&self.store);
        let events = &self.store.events[first_event..];
        for (id, after) in &self.store.executions {
            if let Some(before) = before.get(id) {
                invariants::check_step(before, after, events);
            }
        }
        self.check_windows();
        let (executions, window) = match self.memory {
            Memory::Everything => (usize::MAX, usize::MAX / 4),
            Memory::Windows => (0, usize::MAX / 4),
            Memory::Nothing => (0, 1),
        };
        (self.settled, self.known) = (number, self.store.log.len() as u64);
        self.ws.evict(number, executions, executions, window);
        self.refill_agenda(1);
        self.check_windows();
        true
    }

    /// What is in memory can be compared with the store only when the store has everything.
    fn check_windows(&self) {
        if self.in_flight.is_empty() && self.undecided == 0 {
            invariants::check_windows(&self.ws, &self.store);
        }
    }

    /// Everything that is not stored is lost.
    pub fn conflict(&mut self) {
        self.in_flight.clear();
        self.undecided = 0;
        self.ws.undo(self.settled);
        self.check_windows();
    }

    /// Goes on at another server, which learns what has been stored since it was there last.
    pub fn switch(&mut self) {
        self.conflict();
        let (other, settled, known) = &mut self.other;
        std::mem::swap(&mut self.ws, other);
        std::mem::swap(&mut self.settled, settled);
        std::mem::swap(&mut self.known, known);
        if !self.ws.is_open() {
            return self.open();
        }
        let crate::workspace::Answer::Changes(Some(missed)) =
            self.store.answer(&Ask::Changes { since: self.known })
        else {
            unreachable!("the model tells everything apart");
        };
        self.disturbed = self.ws.disturbed_by(&missed);
        self.ws.catch_up(*missed);
        self.known = self.store.log.len() as u64;
        invariants::check_records(&self.ws, &self.store);
        self.check_windows();
    }

    // ---- time --------------------------------------------------------------------------------------------

    /// Lets time pass and fires everything that falls due on the way, when it does.
    pub fn pass(&mut self, ms: Ms) {
        let end = self.now.saturating_add(ms);
        for _ in 0..10_000 {
            self.commit();
            let mut due =
                self.store.agenda.keys().filter(|key| !matches!(key.subject, Subject::Deliver { .. }));
            let Some(entry) = due.next().copied().filter(|key| key.due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(entry.due);
            self.fire(entry);
        }
        panic!("the agenda never comes to rest");
    }

    /// Lets time pass without anybody looking at the agenda.
    pub fn jump(&mut self, ms: Ms) {
        self.now = self.now.saturating_add(ms);
    }

    pub fn fire(&mut self, entry: AgendaKey) -> Reply {
        while !self.ws.agenda().is_whole() && self.ws.agenda().mark() < entry.due {
            self.refill_agenda(1);
        }
        self.ok(Fire { entry, seed: 7, after_outage: false })
    }

    /// The first entry that is due, as the workspace sees it.
    pub fn first_due(&mut self) -> Option<AgendaKey> {
        while self.ws.agenda().mark() < self.now {
            self.refill_agenda(1);
        }
        let mut keys = self.ws.agenda().iter().map(|(key, _)| *key);
        keys.find(|key| !matches!(key.subject, Subject::Deliver { .. })).filter(|key| key.due <= self.now)
    }

    /// The timer entry of an execution.
    pub fn timer(&self, id: ExecutionId) -> Option<AgendaKey> {
        self.get(id).live.timer.map(|due| AgendaKey { due, subject: Subject::Timer(id) })
    }

    // ---- looking -----------------------------------------------------------------------------------------

    pub fn get(&self, id: ExecutionId) -> &Execution {
        self.find(id).expect("it is stored")
    }

    /// The record as the workspace sees it, stored or not.
    pub fn current(&self, id: ExecutionId) -> Option<Execution> {
        match self.ws.execution(id) {
            Ok(known) => known.map(|it| (**it).clone()),
            Err(_) => self.find(id).cloned(),
        }
    }

    pub fn find(&self, id: ExecutionId) -> Option<&Execution> {
        self.store.executions.get(&id).map(|it| &**it)
    }

    /// Its public state and reason, as words.
    pub fn state(&self, id: ExecutionId) -> (&'static str, &'static str) {
        (self.get(id).public_state().word(), self.get(id).reason().word())
    }

    /// The words of what happened to it, in order.
    pub fn facts(&self, id: ExecutionId) -> Vec<&'static str> {
        let own = self.store.events.iter().filter(|event| event.execution == Some(id));
        own.map(|event| event.fact.word()).collect()
    }

    /// Messages to other partitions that nobody has acknowledged.
    pub fn messages(&self) -> Vec<AgendaEntry> {
        let messages = self.store.agenda.iter().filter(|(_, message)| message.is_some());
        messages.map(|(key, message)| AgendaEntry { key: *key, message: message.clone() }).collect()
    }

    // ---- common moves ------------------------------------------------------------------------------------

    pub fn next_id(&mut self) -> ExecutionId {
        self.last_id += 1;
        ExecutionId::from_parts(self.now, Route(self.ws.partition.0), self.last_id)
    }

    pub fn new_instance(&mut self) -> InstanceId {
        self.last_id += 1;
        InstanceId::from_parts(self.now, Route(self.ws.partition.0), self.last_id)
    }

    pub fn registration(&self, instance: InstanceId) -> RegisterWorker {
        RegisterWorker {
            instance,
            name: WorkerName::parse("w").unwrap(),
            lanes: vec![LaneName::default()],
            capabilities: Capabilities::default(),
            build: None,
            server: None,
            owner: None,
            // Long, so that only tests about workers see it die of silence.
            ttl_ms: 1_000_000_000_000,
        }
    }

    pub fn submission(&mut self) -> Create {
        let id = self.next_id();
        Create { policy: policy(), ..Create::new(id, kind("work"), Payload::json("{}")) }
    }

    pub fn create(&mut self) -> ExecutionId {
        self.create_with(|_| {})
    }

    pub fn create_with(&mut self, edit: impl FnOnce(&mut Create)) -> ExecutionId {
        let mut create = self.submission();
        edit(&mut create);
        create.validate(&self.ws.limits).expect("the submission is valid");
        match self.ok(create) {
            Reply::Created { execution, existing: false } => execution,
            other => panic!("{other:?}"),
        }
    }

    /// A command about a row that has just been posted, with an id of this partition.
    pub fn posted(&mut self, edit: impl FnOnce(&mut Posted)) -> Receive {
        let id = self.next_id();
        let receive = self.receive(|it| {
            it.id = Some(id);
            edit(it);
        });
        self.store.inbox.insert(self.last_id, (*receive.posted).clone());
        receive
    }

    /// A command about the row that was posted last.
    pub fn receive(&self, edit: impl FnOnce(&mut Posted)) -> Receive {
        let mut posted = Posted {
            number: self.last_id,
            id: None,
            posted_at: self.now,
            kind: "work".into(),
            input: Payload::json("{}"),
            namespace: None,
            lane: None,
            key: None,
            options: None,
        };
        edit(&mut posted);
        Receive { posted: Arc::new(posted), seed: self.last_id, defect: None }
    }

    pub fn poll(&self) -> Poll {
        Poll {
            worker: WorkerName::parse("w").unwrap(),
            instance: self.worker,
            lanes: vec![LaneName::default()],
            kinds: Vec::new(),
            namespaces: Vec::new(),
            capabilities: Capabilities::default(),
        }
    }

    pub fn claim_with(&mut self, poll: Poll, max: usize) -> Vec<Fence> {
        match self.ok(Claim { poll: Arc::new(poll), max }) {
            Reply::Claimed(claimed) => claimed.iter().map(|it| it.fence()).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Claims the one execution that is next.
    pub fn claim(&mut self) -> Fence {
        let claimed = self.claim_with(self.poll(), 1);
        assert_eq!(claimed.len(), 1, "something is ready");
        claimed[0]
    }

    /// A fresh execution that is leased.
    pub fn active(&mut self) -> Fence {
        self.active_with(|_| {})
    }

    pub fn active_with(&mut self, edit: impl FnOnce(&mut Create)) -> Fence {
        let id = self.create_with(edit);
        let fence = self.claim();
        assert_eq!(fence.execution, id);
        fence
    }

    /// The ids a poll gets, in order.
    pub fn order(&mut self, poll: Poll) -> Vec<ExecutionId> {
        self.claim_with(poll, 100).iter().map(|fence| fence.execution).collect()
    }

    pub fn set_lane_mode(&mut self, name: &str, mode: LaneMode) -> Reply {
        self.ok(SetLane { mode: Some(mode), ..set_lane(name) })
    }
}

// ---- commands with the parts that do not matter filled in ------------------------------------------------

pub(crate) fn set_lane(name: &str) -> SetLane {
    SetLane {
        lane: lane(name),
        mode: None,
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor: "op".into(),
        cause: "test".into(),
    }
}

pub(crate) fn complete(fence: Fence) -> Complete {
    Complete { fence, result: Some(Payload::json("1")) }
}

pub(crate) fn fail(fence: Fence) -> Fail {
    Fail { fence, error: TaskError::new("broken", "it broke"), retry_after_ms: None, seed: 7 }
}

pub(crate) fn fail_fatally(fence: Fence) -> Fail {
    let error = TaskError { class: ErrorClass::Fatal, ..TaskError::new("broken", "for good") };
    Fail { error, ..fail(fence) }
}

pub(crate) fn delay(fence: Fence, delay_ms: Ms) -> Delay {
    Delay::new(fence, delay_ms)
}

pub(crate) fn release(fence: Fence) -> Release {
    Release::new(fence)
}

pub(crate) fn renew(fence: Fence) -> Renew {
    Renew { fences: vec![fence] }
}

pub(crate) fn report(fence: Fence, percent: u8) -> Report {
    Report { fence, progress: Progress { percent: Some(percent), ..Progress::default() } }
}

pub(crate) fn cancel(execution: ExecutionId, grace_ms: Option<Ms>) -> Cancel {
    Cancel { execution, actor: "op".into(), cause: "test".into(), grace_ms }
}

macro_rules! by_operator {
    ($($function:ident => $name:ident),+) => {
        $(pub(crate) fn $function(execution: ExecutionId) -> $name {
            $name { execution, actor: "op".into(), cause: "test".into() }
        })+
    };
}
pub(crate) fn replay(execution: ExecutionId) -> Replay {
    Replay { execution, actor: "op".into(), cause: "test".into(), ended_by: None }
}

by_operator!(hold => Hold, unhold => Unhold, revoke => Revoke, remove => Remove, resume => Resume);

pub(crate) fn set_priority(execution: ExecutionId, priority: i8) -> SetPriority {
    SetPriority { execution, priority, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn tag(execution: ExecutionId, key: &str, value: &str) -> Tag {
    let set = vec![(key.into(), value.into())];
    Tag { execution, set, remove: Vec::new(), actor: "op".into(), cause: "test".into() }
}

pub(crate) fn repost_letter(number: u64) -> RepostLetter {
    RepostLetter { partition: PartitionId(0), number, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn drop_letter(number: u64) -> DropLetter {
    DropLetter { partition: PartitionId(0), number, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn empty_flow(id: FlowId) -> CreateFlow {
    CreateFlow {
        id,
        fresh: false,
        namespace: Namespace::default(),
        kind: kind("flow"),
        tags: crate::tags::Tags::default(),
        nodes: Vec::new(),
        edges: Vec::new(),
        sealed: false,
        actor: "op".into(),
    }
}

pub(crate) fn seal(flow: FlowId) -> Seal {
    Seal { flow, node: None, expected_revision: None, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn set_group_policy(flow: FlowId, node: ExecutionId, join: Join) -> SetGroupPolicy {
    let (actor, cause) = ("op".into(), "test".into());
    SetGroupPolicy { flow, node, join, expected_revision: None, actor, cause }
}

pub(crate) fn cancel_flow(flow: FlowId, policy: CancelPolicy) -> CancelFlow {
    CancelFlow { flow, policy, members_after: 0, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn bury(instance: InstanceId) -> BuryWorker {
    BuryWorker { instance, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn drain(instance: InstanceId) -> DrainWorker {
    DrainWorker { instance, actor: "op".into(), cause: "test".into() }
}

/// Parks an execution for 20 s until it gets a signal called `go`, which the inbox shows.
pub(crate) fn suspend(fence: Fence) -> Suspend {
    let name = Some(signal_name("go"));
    Suspend {
        timeout: Some(When::In(20_000)),
        waitpoints: vec![NewWaitpoint { name, ..NewWaitpoint::default() }],
        ..Suspend::new(fence, named("go"))
    }
}

pub(crate) fn signal_name(name: &str) -> SignalName {
    SignalName::parse(name).unwrap()
}

/// One signal of this name.
pub(crate) fn named(name: &str) -> Condition {
    Condition::Signal(Match::named(signal_name(name)))
}

pub(crate) fn issue_token(execution: ExecutionId, number: u32) -> IssueToken {
    let waitpoint = WaitpointId { execution, number };
    IssueToken { waitpoint, actor: "op".into(), cause: "test".into() }
}

pub(crate) fn signal(execution: ExecutionId, name: &str) -> SendSignal {
    SendSignal { name: Some(signal_name(name)), ..SendSignal::new(To::Execution(execution)) }
}

pub(crate) fn open_waitpoint(fence: Fence, name: &str) -> OpenWaitpoint {
    let waitpoint = NewWaitpoint { name: Some(signal_name(name)), ..NewWaitpoint::default() };
    OpenWaitpoint { fence, waitpoint, step: None }
}

pub(crate) fn step_place(name: &str, number: u32) -> StepPlace {
    StepPlace { key: StepKey { name: StepName::parse(name).unwrap(), occurrence: 0 }, number }
}

pub(crate) fn record_step(fence: Fence, name: &str, number: u32) -> RecordSteps {
    let result = Payload::json(format!("\"{name}\""));
    let step = NewStep { place: step_place(name, number), kind: StepKind::Run, took_ms: 3, result };
    RecordSteps { fence, steps: vec![step], drift: Drift::default() }
}

/// Starts the child that goes with a lease.
pub(crate) fn start_child(fence: Fence) -> StartChild {
    let (high, low) = fence.execution.0.as_u64_pair();
    let random = high.wrapping_mul(31).wrapping_add(low).wrapping_add(fence.epoch);
    let id = ExecutionId::from_parts(START, fence.execution.route(), random);
    let create = Create { policy: policy(), ..Create::new(id, kind("child"), Payload::json("{}")) };
    StartChild { fence, create, step: None }
}

/// So many frames from a number on.
pub(crate) fn append(fence: Fence, first: u64, frames: u64) -> Append {
    let frame = |number: u64| NewFrame {
        kind: FrameKind::parse("text").unwrap(),
        mode: FrameMode::Durable,
        bytes: number.to_string().into_bytes().into(),
    };
    Append { fence, first, frames: (first..first + frames).map(frame).collect() }
}

pub(crate) fn rotate_key(byte: u8, grace_ms: Ms) -> RotateKey {
    let (actor, cause) = ("op".into(), "test".into());
    RotateKey { secret: Secret([byte; 32]), grace_ms, if_none: false, actor, cause }
}

pub(crate) fn create_token(id: &str, byte: u8) -> CreateToken {
    CreateToken {
        id: id.into(),
        name: id.into(),
        hash: SecretHash([byte; 32]),
        role: Role::Operator,
        namespaces: Vec::new(),
        see_payloads: false,
        expires_in_ms: None,
        actor: "op".into(),
        cause: "test".into(),
    }
}

pub(crate) fn revoke_token(id: &str) -> RevokeToken {
    RevokeToken { id: id.into(), actor: "op".into(), cause: "test".into() }
}

pub(crate) fn set_webhook(id: &str) -> SetWebhook {
    SetWebhook {
        id: id.into(),
        url: "https://example.test/in".into(),
        secret: Some(Secret([1; 32])),
        first_secret: None,
        families: Vec::new(),
        namespace: None,
        lane: None,
        facts: Vec::new(),
        paused: false,
        begin: None,
        actor: "op".into(),
        cause: "test".into(),
    }
}

pub(crate) fn remove_webhook(id: &str) -> RemoveWebhook {
    RemoveWebhook { id: id.into(), actor: "op".into(), cause: "test".into() }
}

pub(crate) fn take_webhook(before: Option<&str>, server: Option<&str>) -> TakeWebhook {
    let [before, server] = [before, server].map(|it| it.map(Into::into));
    TakeWebhook { webhook: "hook".into(), before, server }
}

/// A delivery of this number from one place in the log to another, answered with a status.
pub(crate) fn note_delivery(number: u64, from: Option<&str>, to: &str, status: u16) -> NoteDelivery {
    let sent = Sent { number, events: 2, status: Some(status), error: None, took_ms: 5 };
    NoteDelivery {
        webhook: "hook".into(),
        server: "server".into(),
        from: from.map(Into::into),
        to: to.into(),
        sent: Some(sent),
        seed: number,
    }
}

/// Cancels everything.
pub(crate) fn start_bulk(id: &str) -> StartBulk {
    let up_to = ExecutionId(uuid::Uuid::max());
    StartBulk {
        id: id.into(),
        action: Action::Cancel { grace_ms: None },
        selection: Selection::Filter { filter: Box::default(), up_to, after: None },
        rate: None,
        namespaces: Vec::new(),
        expected: None,
        server: None,
        actor: "op".into(),
        cause: "test".into(),
    }
}

pub(crate) fn take_bulk(before: Option<&str>, server: Option<&str>) -> TakeBulk {
    let [before, server] = [before, server].map(|it| it.map(Into::into));
    TakeBulk { bulk: "a".into(), before, server }
}

/// A part of three executions, one of which had ended.
pub(crate) fn advance_bulk(part: u64, reached: Reached) -> AdvanceBulk {
    let mut counts = BulkCounts { seen: 3, done: 2, ..BulkCounts::default() };
    counts.skip(ExecutionId(uuid::Uuid::nil()), "terminal", "it has ended".to_owned());
    AdvanceBulk { bulk: "a".into(), server: "server".into(), part, reached, counts, sent: 3 }
}

pub(crate) fn stop_bulk(id: &str) -> StopBulk {
    StopBulk { id: id.into(), actor: "op".into(), cause: "test".into() }
}

/// Every call a worker can make about a lease.
pub(crate) fn worker_calls(fence: Fence) -> Vec<Command> {
    vec![
        complete(fence).into(),
        fail(fence).into(),
        delay(fence, 1_000).into(),
        release(fence).into(),
        report(fence, 50).into(),
        renew(fence).into(),
        suspend(fence).into(),
        open_waitpoint(fence, "later").into(),
        record_step(fence, "one", 0).into(),
        start_child(fence).into(),
        append(fence, 1, 2).into(),
    ]
}

/// The code of a refusal, also of the one renewal inside a batch of them.
pub(crate) fn code(result: &Result<Reply, Rejection>) -> &'static str {
    match result {
        Err(rejection) => rejection.code(),
        Ok(Reply::Renewed(renewals)) => {
            renewals.iter().find_map(|it| it.as_ref().err()).map_or("ok", |it| it.code())
        }
        Ok(_) => "ok",
    }
}
