//! The runner of one partition: batches commands, decides them on its cached view, commits, answers.
//!
//! While a batch is on its way to the store, commands queue; when there is room again, everything queued
//! becomes the next batch. The cached view is valid as long as the partition's version is the one the runner
//! last saw. If a commit conflicts, everything decided on the old view is decided again on a fresh one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::change::{Changes, Header};
use ff_core::commands::{Claim, Fire, decide};
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::workspace::{Answer, Stop};
use ff_core::{Command, CommitId, Ms, PartitionId, Reply, Route, Workspace};
use ff_store::{Commit, Loaded, Missed, Outcome, Status, StoreError, Version, Written};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batch::{Batch, Decided, Global, Message, Origin, Pending, deliveries_of, news};
use super::polls::Polls;
use super::{LoadToken, MachineStats, Output};
use crate::config::{Bug, MachineConfig};
use crate::failure::Failure;

/// Without a commit for so long although something was due, the store was out of reach.
const OUTAGE_MS: Ms = 5_000;
/// Messages that are still not acknowledged after this time are sent again by whoever sees them.
const REDELIVER_MS: Ms = 500;
/// An agenda entry that failed so often is tried once in a while only.
const FAILURES_MAX: u32 = 3;
const STUCK_RETRY_MS: Ms = 60_000;

#[derive(Debug)]
enum Phase {
    /// The partition must be read before anything can be decided.
    Closed,
    Opening,
    /// The opening is here; which cached records are stale is being read.
    CatchingUp(Box<Loaded>),
    Serving,
    /// The outcome of the oldest batch in flight is unknown and being found out. If nobody has written its
    /// version, an empty commit takes that place, and the lost one can never apply.
    Resolving {
        seal: Option<CommitId>,
    },
}

/// A reply that writes nothing, and the number of the version it was decided on. A commit that was on its way
/// before it was decided does not confirm it: that commit may have been carried out, and others after it,
/// before the question was even asked.
#[derive(Debug)]
struct Unconfirmed {
    on: u64,
    decided: Decided,
}

#[derive(Debug)]
pub(super) struct Runner {
    partition: PartitionId,
    config: Arc<MachineConfig>,
    ws: Workspace,
    phase: Phase,
    /// The newest version known to be committed; `None` before the first opening.
    version: Option<Version>,
    queue: VecDeque<Pending>,
    queue_bytes: usize,
    /// Commands that wait for a load.
    parked: Vec<Pending>,
    /// Nobody who waits here gives up before this local time; it may be too early, never too late.
    give_up_from: Ms,
    /// Loads from before the newest fall-back are of another era and are ignored.
    era: u64,
    load_number: u64,
    loads: usize,
    asked: FxHashSet<Ask>,
    /// Refills that wait for the commit of a batch: a window does not remember what changed beyond its mark
    /// before the refill was begun, so the store must know it when it answers.
    held_refills: Vec<(u64, Ask)>,
    in_flight: VecDeque<Batch>,
    /// Replies that wrote nothing and wait until the version they were decided on is confirmed.
    unconfirmed: Vec<Unconfirmed>,
    confirming: Vec<Unconfirmed>,
    /// Results for the machine itself.
    internal: Vec<(Pending, Result<Reply, Failure>)>,
    globals: Vec<Global>,
    messages: Vec<Message>,
    /// Messages of batches in flight, which must not leave yet.
    unsent: FxHashSet<AgendaKey>,
    /// Agenda entries with a command under way.
    firing: FxHashSet<AgendaKey>,
    failures: FxHashMap<AgendaKey, (u32, Ms)>,
    /// Smaller while a batch that the store refuses is being taken apart.
    batch_limit: usize,
    /// Not before this local time is the store tried again.
    paused_until: Option<Ms>,
    pause_ms: Ms,
    last_error: String,
    settled: u64,
    /// Partition time and the local time it was read at; it never goes back.
    base: (Ms, Ms),
    random: u64,
    stats: MachineStats,
}

impl Runner {
    pub fn new(
        partition: PartitionId,
        partitions: u16,
        limits: Arc<Limits>,
        config: Arc<MachineConfig>,
        seed: u64,
    ) -> Runner {
        Runner {
            partition,
            ws: Workspace::new(partition, partitions, limits),
            phase: Phase::Closed,
            version: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            parked: Vec::new(),
            give_up_from: Ms::MAX,
            era: 0,
            load_number: 0,
            loads: 0,
            asked: FxHashSet::default(),
            held_refills: Vec::new(),
            in_flight: VecDeque::new(),
            unconfirmed: Vec::new(),
            confirming: Vec::new(),
            internal: Vec::new(),
            globals: Vec::new(),
            messages: Vec::new(),
            unsent: FxHashSet::default(),
            firing: FxHashSet::default(),
            failures: FxHashMap::default(),
            batch_limit: config.batch_max,
            paused_until: None,
            pause_ms: config.backoff_ms.0,
            last_error: String::new(),
            settled: 0,
            base: (0, 0),
            random: seed,
            stats: MachineStats::default(),
            config,
        }
    }

    // ---- taking in -----------------------------------------------------------------------------------

    pub fn enqueue(&mut self, pending: Pending) -> Result<(), Failure> {
        let waiting = self.queue.len() + self.parked.len();
        let weight = pending.command.weight();
        if waiting >= self.config.queue_max || self.queue_bytes + weight > self.config.queue_bytes_max {
            return Err(Failure::Busy { waiting, max: self.config.queue_max });
        }
        self.enqueue_internal(pending);
        Ok(())
    }

    /// Enqueues what the system itself has to say, whatever the length of the queue.
    pub fn enqueue_internal(&mut self, pending: Pending) {
        self.queue_bytes += pending.command.weight();
        self.give_up_from = self.give_up_from.min(pending.give_up_at);
        self.queue.push_back(pending);
    }

    pub fn loaded(
        &mut self,
        at: Ms,
        token: LoadToken,
        result: Result<Loaded, StoreError>,
        outputs: &mut Vec<Output>,
    ) {
        if token.era != self.era {
            return;
        }
        self.loads -= 1;
        match result {
            Ok(loaded) if matches!(self.phase, Phase::Opening) => self.opening_loaded(at, loaded, outputs),
            Ok(loaded) if self.is_ours(loaded.version) => {
                for answer in loaded.answers {
                    self.learn(answer);
                }
                self.unpark();
            }
            Ok(_) => self.foreign_commit(),
            Err(error) => self.load_failed(at, error, outputs),
        }
    }

    /// A load failed. Batches in flight are not touched: their outcome is still to come.
    fn load_failed(&mut self, at: Ms, error: StoreError, outputs: &mut Vec<Output>) {
        self.forget_loads();
        self.ws.agenda_mut().cancel_refill();
        self.ws.ready_mut().windows_mut().for_each(|(_, _, window)| window.cancel_refill());
        self.pause(at, error.to_string());
        if matches!(self.phase, Phase::Opening) {
            self.phase = Phase::Closed;
        } else if matches!(error, StoreError::Unavailable(_)) {
            self.unpark();
        } else {
            for pending in std::mem::take(&mut self.parked) {
                let result = Err(Failure::Internal(error.to_string()));
                if let Origin::Agenda(key) = pending.origin {
                    self.fired(key, &result);
                }
                self.answer(Decided { pending, result }, outputs);
            }
        }
    }

    /// Answers still to come are ignored: a refill may be begun anew before they arrive.
    fn forget_loads(&mut self) {
        self.era += 1;
        self.loads = 0;
        self.asked.clear();
        self.held_refills.clear();
    }

    fn learn(&mut self, answer: Answer) {
        let ask = match &answer {
            Answer::Execution(id, _) => Some(Ask::Record(ff_core::key::Key::Execution(*id))),
            Answer::Dedup(key, _) => Some(Ask::Record(ff_core::key::Key::Dedup(key.clone()))),
            _ => None,
        };
        match ask {
            Some(ask) => drop(self.asked.remove(&ask)),
            None => self.asked.retain(|ask| matches!(ask, Ask::Record(_))),
        }
        self.ws.learn(answer);
    }

    /// Whether a version is the newest one known, one of ours on its way, or older than what we know.
    fn is_ours(&self, version: Version) -> bool {
        let known = self.version.unwrap_or(Version::NONE);
        version == known
            || version.number < known.number
            || self.in_flight.iter().any(|batch| batch.version() == version)
    }

    fn opening_loaded(&mut self, _at: Ms, loaded: Loaded, outputs: &mut Vec<Output>) {
        match self.version {
            Some(known) if known != loaded.version => {
                outputs.push(Output::Missed { partition: self.partition, number: known.number });
                self.phase = Phase::CatchingUp(Box::new(loaded));
            }
            _ => self.open(loaded),
        }
    }

    fn open(&mut self, loaded: Loaded) {
        self.version = Some(loaded.version);
        self.asked.clear();
        for answer in loaded.answers {
            if matches!(answer, Answer::Agenda { .. }) {
                self.ws.agenda_mut().start_refill();
            }
            self.ws.learn(answer);
        }
        self.firing.clear();
        self.phase = Phase::Serving;
        self.unpark();
    }

    pub fn missed(&mut self, at: Ms, result: Result<Missed, StoreError>, outputs: &mut Vec<Output>) {
        let Phase::CatchingUp(_) = &self.phase else { return };
        let Phase::CatchingUp(loaded) = std::mem::replace(&mut self.phase, Phase::Closed) else { return };
        let keys = match result {
            Ok(Missed::Keys(keys)) => Some(keys),
            Ok(Missed::Everything) => None,
            Err(error) => {
                // The opening must be asked for again.
                self.forget_loads();
                return self.pause(at, error.to_string());
            }
        };
        match &keys {
            Some(keys) => self.ws.fall_back(keys.iter().cloned()),
            None => self.ws.forget_all(),
        }
        self.open(*loaded);
        let next_event = self.ws.header().next_event;
        outputs.push(Output::Foreign { partition: self.partition, keys, next_event });
    }

    pub fn status(&mut self, _at: Ms, status: &Status, outputs: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        if !self.is_ours(status.version) {
            return self.foreign_commit();
        }
        for it in std::mem::take(&mut self.confirming) {
            match it.on <= status.version.number {
                true => self.answer(it.decided, outputs),
                // Read before the commit that it builds on.
                false => self.unconfirmed.push(it),
            }
        }
    }

    /// The version could not be read; what waits for it waits on.
    pub fn status_failed(&mut self, at: Ms, error: &StoreError) {
        self.unconfirmed.splice(0..0, self.confirming.drain(..));
        if !self.unconfirmed.is_empty() {
            self.pause(at, error.to_string());
        }
    }

    /// Somebody else has committed. If we have a commit on its way, that will conflict and say so.
    fn foreign_commit(&mut self) {
        if self.in_flight.is_empty() {
            self.fall_back();
        }
    }

    pub fn wants_confirmation(&self) -> bool {
        let settled = self.version.map_or(0, |version| version.number);
        self.paused_until.is_none() && self.unconfirmed.iter().any(|it| it.on <= settled)
    }

    /// A version read is on its way; it confirms everything decided before it was sent.
    pub fn confirmation_asked(&mut self) {
        self.confirming.append(&mut self.unconfirmed);
    }

    // ---- outcomes ------------------------------------------------------------------------------------

    pub fn committed(&mut self, at: Ms, id: CommitId, outcome: Outcome, outputs: &mut Vec<Output>) {
        if let Phase::Resolving { seal: Some(seal) } = self.phase
            && seal == id
        {
            return self.sealed(at, outcome, outputs);
        }
        let Some(batch) = self.in_flight.iter_mut().find(|batch| batch.id == id) else { return };
        batch.outcome = Some(outcome);
        self.work_off(at, outputs);
    }

    /// Deals with the batches in flight whose outcome is known, oldest first.
    fn work_off(&mut self, at: Ms, outputs: &mut Vec<Output>) {
        while matches!(self.phase, Phase::Serving)
            && let Some(outcome) = self.in_flight.front_mut().and_then(|batch| batch.outcome.take())
        {
            match outcome {
                Outcome::Committed { .. } => self.finish_oldest(at, outputs),
                Outcome::Conflict => {
                    self.stats.conflicts += 1;
                    self.fall_back();
                }
                Outcome::Unknown(error) => {
                    self.stats.unknown_outcomes += 1;
                    self.last_error = error;
                    if self.config.bug == Some(Bug::CommitIdIgnored) {
                        self.finish_oldest(at, outputs);
                        continue;
                    }
                    self.phase = Phase::Resolving { seal: None };
                    // Those who had to wait for the answer may give up now.
                    self.give_up_from = Ms::MIN;
                    self.ask_written(outputs);
                }
                Outcome::Failed(StoreError::Refused(error)) => self.take_apart(error, outputs),
                Outcome::Failed(error) => {
                    self.pause(at, error.to_string());
                    self.fall_back();
                }
            }
        }
    }

    fn finish_oldest(&mut self, _at: Ms, outputs: &mut Vec<Output>) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        self.version = Some(batch.version());
        self.settled = batch.number;
        self.paused_until = None;
        self.pause_ms = self.config.backoff_ms.0;
        self.batch_limit = (self.batch_limit * 2).min(self.config.batch_max);
        for (entry, _) in &batch.messages {
            self.unsent.remove(entry);
        }
        self.messages.extend(batch.messages);
        for decided in batch.decided.into_iter().chain(batch.confirms) {
            self.answer(decided, outputs);
        }
        outputs.push(Output::News { partition: self.partition, news: batch.news });
        self.tidy();
    }

    /// The store refuses a batch for what is in it: halve it until the guilty command is alone.
    fn take_apart(&mut self, error: String, outputs: &mut Vec<Output>) {
        let Some(batch) = self.in_flight.front_mut() else { return };
        if batch.decided.len() <= 1 {
            if let Some(decided) = batch.decided.pop() {
                let result = Err(Failure::Internal(format!("the store refused it: {error}")));
                if let Origin::Agenda(key) = decided.pending.origin {
                    self.fired(key, &result);
                }
                self.answer(Decided { result, ..decided }, outputs);
            }
            self.batch_limit = 1;
        } else {
            self.batch_limit = (batch.decided.len() / 2).max(1);
        }
        self.fall_back();
    }

    fn ask_written(&mut self, outputs: &mut Vec<Output>) {
        if let Some(batch) = self.in_flight.front() {
            let number = batch.version().number;
            outputs.push(Output::Written { partition: self.partition, number });
        }
    }

    /// Who has written the version that our lost commit was to become.
    pub fn written(
        &mut self,
        at: Ms,
        number: u64,
        result: Result<Written, StoreError>,
        outputs: &mut Vec<Output>,
    ) {
        let Phase::Resolving { seal: None } = self.phase else { return };
        // A late answer about another batch says nothing about this one.
        let Some(batch) = self.in_flight.front().filter(|batch| batch.version().number == number) else {
            return;
        };
        match result {
            Ok(Written::By(id)) if id == batch.id => {
                self.phase = Phase::Serving;
                self.finish_oldest(at, outputs);
                self.work_off(at, outputs);
            }
            Ok(Written::By(_)) => {
                self.phase = Phase::Serving;
                self.fall_back();
            }
            Ok(Written::Not) => {
                // Nothing of the lost batch may show in the header.
                let (expected, header) = (batch.expected, batch.header_before);
                let id = self.commit_id(at);
                let changes = Changes { header, ..Changes::default() };
                self.phase = Phase::Resolving { seal: Some(id) };
                outputs.push(Output::Commit(vec![Commit {
                    partition: self.partition,
                    expected,
                    id,
                    changes,
                }]));
            }
            Ok(Written::Forgotten) => {
                let lost = self
                    .in_flight
                    .drain(..)
                    .flat_map(|batch| batch.decided.into_iter().chain(batch.confirms));
                for decided in lost.collect::<Vec<_>>() {
                    self.answer(Decided { result: Err(Failure::OutcomeUnknown), ..decided }, outputs);
                }
                self.phase = Phase::Serving;
                self.fall_back();
            }
            Err(error) => self.pause(at, error.to_string()),
        }
    }

    /// The empty commit has taken the lost one's place, or found it taken.
    fn sealed(&mut self, at: Ms, outcome: Outcome, outputs: &mut Vec<Output>) {
        match outcome {
            Outcome::Committed { .. } => {
                self.phase = Phase::Serving;
                self.fall_back();
            }
            Outcome::Conflict | Outcome::Unknown(_) => {
                self.phase = Phase::Resolving { seal: None };
                self.ask_written(outputs);
            }
            Outcome::Failed(error) => {
                self.phase = Phase::Resolving { seal: None };
                self.pause(at, error.to_string());
            }
        }
    }

    /// Throws away what was decided but not committed; its commands are decided again on a fresh view.
    fn fall_back(&mut self) {
        let mut keys = Vec::new();
        let mut again = Vec::new();
        for batch in self.in_flight.drain(..) {
            keys.extend(batch.keys);
            again.extend(batch.decided.into_iter().chain(batch.confirms).map(|decided| decided.pending));
        }
        let unconfirmed = self.confirming.drain(..).chain(self.unconfirmed.drain(..));
        again.extend(unconfirmed.map(|it| it.decided.pending));
        again.append(&mut self.parked);
        self.ws.fall_back(keys);
        self.unsent.clear();
        self.firing.clear();
        self.forget_loads();
        self.phase = Phase::Closed;
        self.requeue(again);
    }

    fn unpark(&mut self) {
        let parked = std::mem::take(&mut self.parked);
        self.requeue(parked);
    }

    /// Puts commands back in front of the queue, in order. Agenda entries are found again in the agenda.
    fn requeue(&mut self, pending: Vec<Pending>) {
        for pending in pending.into_iter().rev() {
            match pending.origin {
                Origin::Agenda(key) => drop(self.firing.remove(&key)),
                Origin::Nobody => {}
                _ => {
                    self.queue_bytes += pending.command.weight();
                    self.give_up_from = self.give_up_from.min(pending.give_up_at);
                    self.queue.push_front(pending);
                }
            }
        }
    }

    fn pause(&mut self, at: Ms, error: String) {
        self.last_error = error;
        self.paused_until = Some(at + self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(self.config.backoff_ms.1);
    }

    // ---- deciding ------------------------------------------------------------------------------------

    pub fn turn(
        &mut self,
        at: Ms,
        offset_ms: Ms,
        polls: &mut Polls,
        outputs: &mut Vec<Output>,
        commits: &mut Vec<Commit>,
    ) {
        let resumed = self.paused_until.take_if(|until| *until <= at).is_some();
        if self.paused_until.is_some() {
            return self.give_up(at, outputs);
        }
        match self.phase {
            Phase::Closed => {
                self.give_up(at, outputs);
                self.phase = Phase::Opening;
                let asks = vec![Ask::Opening, Ask::Agenda { after: Ms::MIN, limit: self.config.window }];
                self.send_load(asks, outputs);
            }
            Phase::Serving => {
                self.give_up(at, outputs);
                if self.in_flight.len() < self.config.pipeline {
                    self.decide_batch(at, offset_ms, polls, outputs, commits);
                }
            }
            Phase::Resolving { seal: None } if resumed => {
                self.ask_written(outputs);
                self.give_up(at, outputs);
            }
            Phase::Opening | Phase::CatchingUp(_) | Phase::Resolving { .. } => self.give_up(at, outputs),
        }
    }

    fn decide_batch(
        &mut self,
        at: Ms,
        offset_ms: Ms,
        polls: &mut Polls,
        outputs: &mut Vec<Output>,
        commits: &mut Vec<Commit>,
    ) {
        let now = self.now(at, offset_ms);
        self.base = (now, at);
        let header_before = *self.ws.header();
        let mut decided = Vec::new();
        let mut asks = Vec::new();
        for pending in self.gather(at, now) {
            self.decide_one(now, pending, &mut decided, &mut asks);
        }
        let claimed = self.serve_polls(now, polls, &mut decided, &mut asks);
        self.refill(claimed, &mut asks);
        if !decided.is_empty() {
            self.commit_batch(at, now, header_before, decided, outputs, commits);
        }
        // After the commit, so that refills know which batch they have to wait for.
        self.send_load(asks, outputs);
        self.tidy();
    }

    /// Sends what was decided to the store, or lets it wait for confirmation if it changes nothing.
    fn commit_batch(
        &mut self,
        at: Ms,
        now: Ms,
        header_before: Header,
        mut decided: Vec<Decided>,
        outputs: &mut Vec<Output>,
        commits: &mut Vec<Commit>,
    ) {
        self.stats.commands += decided.len() as u64;
        let changes = self.ws.take_batch(now);
        if changes.is_empty() {
            return self.settle_readonly(decided, outputs);
        }
        let id = self.commit_id(at);
        let expected = match self.in_flight.back() {
            Some(batch) => batch.version(),
            None => self.version.unwrap_or(Version::NONE),
        };
        // What waits for confirmation was decided on the view this batch builds on; its commit confirms it.
        let waiting = self.confirming.drain(..).chain(self.unconfirmed.drain(..));
        let mut confirms: Vec<Decided> = waiting.map(|it| it.decided).collect();
        let messages: Vec<Message> = changes
            .agenda_added
            .iter()
            .filter_map(|entry| Some((entry.key, entry.message.clone()?)))
            .collect();
        self.unsent.extend(messages.iter().map(|(key, _)| *key));
        self.stats.batches += 1;
        if self.config.bug == Some(Bug::ReplyBeforeCommit) {
            for decided in decided.drain(..).chain(confirms.drain(..)) {
                self.answer(decided, outputs);
            }
        }
        self.in_flight.push_back(Batch {
            id,
            expected,
            number: self.ws.batch() - 1,
            decided,
            confirms,
            keys: changes.keys(),
            messages,
            news: news(&changes),
            header_before,
            outcome: None,
        });
        commits.push(Commit { partition: self.partition, expected, id, changes });
    }

    /// What the next batch decides, in its order: renewals and endings, what is due, the rest.
    fn gather(&mut self, at: Ms, now: Ms) -> Vec<Pending> {
        let limit = self.batch_limit;
        let due = self.due(at, now, (limit / 2).max(1));
        let mut batch = Vec::with_capacity(self.queue.len().min(limit) + due.len());
        let mut bytes = 0;
        let room = limit.saturating_sub(due.len()).max(usize::from(due.is_empty()));
        while batch.len() < room
            && bytes < self.config.batch_bytes_max
            && let Some(pending) = self.queue.pop_front()
        {
            let weight = pending.command.weight();
            self.queue_bytes = self.queue_bytes.saturating_sub(weight);
            bytes += weight;
            batch.push(pending);
        }
        batch.extend(due);
        batch.sort_by_key(|pending| pending.command.turn());
        batch
    }

    /// Agenda entries whose time has come.
    fn due(&mut self, at: Ms, now: Ms, max: usize) -> Vec<Pending> {
        let last_commit = self.ws.header().now;
        let entries = self.ws.agenda().iter().map(|(key, _)| *key).take_while(|key| key.due <= now);
        let entries = entries.filter(|key| {
            !matches!(key.subject, Subject::Deliver { .. })
                && !self.firing.contains(key)
                && self.failures.get(key).is_none_or(|(_, retry_at)| *retry_at <= at)
        });
        let entries: Vec<AgendaKey> = entries.take(max).collect();
        entries
            .into_iter()
            .map(|entry| {
                self.firing.insert(entry);
                let outage = last_commit > 0 && now - last_commit > OUTAGE_MS && now - entry.due > OUTAGE_MS;
                let fire = Fire { entry, seed: self.next_random(), after_outage: outage };
                Pending { origin: Origin::Agenda(entry), command: fire.into(), give_up_at: Ms::MAX }
            })
            .collect()
    }

    /// Decides one command; one that needs more is parked. A defect is confined to the command it hits.
    fn decide_one(&mut self, now: Ms, pending: Pending, decided: &mut Vec<Decided>, asks: &mut Vec<Ask>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| decide(&mut self.ws, now, &pending.command)));
        let result = match outcome {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(Stop::Reject(rejection))) => Err(Failure::Rejected(rejection)),
            Ok(Err(Stop::Need(needs))) => {
                asks.extend(needs);
                self.parked.push(pending);
                return;
            }
            Err(panic) => {
                self.ws.roll_back();
                Err(Failure::Internal(panic_text(&*panic)))
            }
        };
        if let Origin::Agenda(key) = pending.origin {
            self.fired(key, &result);
        }
        decided.push(Decided { pending, result });
    }

    fn fired(&mut self, key: AgendaKey, result: &Result<Reply, Failure>) {
        match result {
            Ok(Reply::Fired { effect }) => {
                self.stats.fired += u64::from(*effect);
                self.stats.stray += u64::from(!effect);
                self.failures.remove(&key);
            }
            _ => {
                let (count, retry_at) = self.failures.entry(key).or_insert((0, 0));
                *count += 1;
                let pause = if *count >= FAILURES_MAX { STUCK_RETRY_MS } else { 100 };
                *retry_at = self.base.1 + pause;
            }
        }
    }

    /// Hands ready work to workers that wait, in the same batch that made it ready.
    fn serve_polls(
        &mut self,
        now: Ms,
        polls: &mut Polls,
        decided: &mut Vec<Decided>,
        asks: &mut Vec<Ask>,
    ) -> bool {
        if polls.is_empty() || !self.has_ready() {
            return false;
        }
        let mut claimed = false;
        for waiting in polls.iter_mut() {
            // While a refused batch is taken apart, each command must be alone in the end.
            if self.batch_limit < self.config.batch_max && !decided.is_empty() {
                break;
            }
            if !waiting.poll.finds_work(&self.ws) {
                continue;
            }
            let max = waiting.max.min(self.config.batch_max);
            let command = Command::from(Claim { poll: waiting.poll.clone(), max });
            let outcome = catch_unwind(AssertUnwindSafe(|| decide(&mut self.ws, now, &command)));
            let result = match outcome {
                Ok(Ok(Reply::Claimed(list))) if list.is_empty() => continue,
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(Stop::Reject(rejection))) => Err(Failure::Rejected(rejection)),
                Ok(Err(Stop::Need(needs))) => {
                    asks.extend(needs);
                    continue;
                }
                Err(panic) => {
                    self.ws.roll_back();
                    Err(Failure::Internal(panic_text(&*panic)))
                }
            };
            claimed |= result.is_ok();
            waiting.busy = true;
            let (origin, give_up_at) = (Origin::Poll(waiting.ticket), waiting.give_up_at);
            decided.push(Decided { pending: Pending { origin, command, give_up_at }, result });
        }
        polls.forget_busy();
        claimed
    }

    fn has_ready(&self) -> bool {
        self.ws.ready().lanes().any(|(_, classes)| classes.values().any(|window| window.total() > 0))
    }

    /// Reads ahead, so that neither workers nor timers run into the end of a window.
    fn refill(&mut self, claimed: bool, asks: &mut Vec<Ask>) {
        let low = self.config.window / 2;
        let agenda = self.ws.agenda();
        if !agenda.is_whole() && agenda.len() < low {
            asks.push(Ask::Agenda { after: agenda.mark(), limit: self.config.window });
        }
        if claimed {
            for (lane, classes) in self.ws.ready().lanes() {
                for (class, window) in classes.iter().filter(|(_, it)| !it.is_whole() && it.len() < low) {
                    let (lane, class, after) = (lane.clone(), class.clone(), window.mark());
                    asks.push(Ask::Ready { lane, class, after, limit: self.config.window });
                }
            }
        }
    }

    /// Sends one load for everything that is needed and not already on its way.
    fn send_load(&mut self, asks: Vec<Ask>, outputs: &mut Vec<Output>) {
        let mut wanted = Vec::new();
        let settled = self.settled;
        wanted.extend(self.held_refills.extract_if(.., |(batch, _)| *batch <= settled).map(|(_, ask)| ask));
        let newest = self.in_flight.back().map(|batch| batch.number);
        for ask in asks {
            let ask = match ask {
                Ask::Ready { lane, class, .. } => {
                    let Some(window) = self.ws.ready_mut().window_mut(&lane, &class) else { continue };
                    let Some(after) = window.start_refill() else { continue };
                    Ask::Ready { lane, class, after, limit: self.config.window }
                }
                Ask::Agenda { limit, .. } if matches!(self.phase, Phase::Serving) => {
                    let Some(after) = self.ws.agenda_mut().start_refill() else { continue };
                    Ask::Agenda { after, limit }
                }
                ask if !self.asked.insert(ask.clone()) => continue,
                ask => ask,
            };
            match newest {
                Some(batch) if is_refill(&ask) => self.held_refills.push((batch, ask)),
                _ => wanted.push(ask),
            }
        }
        if wanted.is_empty() {
            return;
        }
        self.load_number += 1;
        self.loads += 1;
        let token = LoadToken { partition: self.partition, era: self.era, number: self.load_number };
        outputs.push(Output::Load { token, asks: wanted });
    }

    /// A batch that writes nothing: its replies wait until the version they were decided on is confirmed.
    fn settle_readonly(&mut self, decided: Vec<Decided>, outputs: &mut Vec<Output>) {
        if self.config.bug == Some(Bug::StaleRejection) {
            for decided in decided {
                self.answer(decided, outputs);
            }
            return;
        }
        let version = self.in_flight.back().map(Batch::version).or(self.version);
        let on = version.map_or(0, |version| version.number);
        self.unconfirmed.extend(decided.into_iter().map(|decided| Unconfirmed { on, decided }));
    }

    /// Gives back memory when nothing is being read.
    fn tidy(&mut self) {
        if self.loads == 0 {
            self.ws.evict(self.settled, self.config.cache_max, self.config.window);
        }
    }

    // ---- answering -----------------------------------------------------------------------------------

    fn answer(&mut self, decided: Decided, outputs: &mut Vec<Output>) {
        let Decided { pending, result } = decided;
        match pending.origin {
            Origin::Caller(ticket) => match result {
                Ok(reply) if !deliveries_of(&reply).is_empty() => {
                    let deliveries = deliveries_of(&reply).to_vec();
                    self.globals.push(Global { ticket, reply, deliveries });
                }
                result => outputs.push(Output::Reply { ticket, result }),
            },
            Origin::Poll(ticket) => outputs.push(Output::Reply { ticket, result }),
            Origin::Agenda(key) => drop(self.firing.remove(&key)),
            Origin::Delivery { .. } | Origin::Acknowledgement(_) => self.internal.push((pending, result)),
            Origin::Nobody => {}
        }
    }

    /// Tells callers whose time is up that the store is out of reach. A command that was sent and whose
    /// outcome is not known is never called unavailable.
    fn give_up(&mut self, at: Ms, outputs: &mut Vec<Output>) {
        if at < self.give_up_from {
            return;
        }
        let unavailable = |error: &str| {
            let error = if error.is_empty() { "no answer yet" } else { error };
            Err(Failure::Unavailable(error.to_owned()))
        };
        if self.queue.iter().chain(&self.parked).any(|pending| pending.give_up_at <= at) {
            let queue = std::mem::take(&mut self.queue);
            let parked = std::mem::take(&mut self.parked);
            let (over, left): (Vec<_>, Vec<_>) =
                parked.into_iter().chain(queue).partition(|pending| pending.give_up_at <= at);
            self.queue = left.into();
            self.queue_bytes = self.queue.iter().map(|pending| pending.command.weight()).sum();
            for pending in over {
                let result = unavailable(&self.last_error);
                self.answer(Decided { pending, result }, outputs);
            }
        }
        let waiting = self.unconfirmed.drain(..).chain(self.confirming.drain(..));
        let (over, left): (Vec<_>, Vec<_>) = waiting.partition(|it| it.decided.pending.give_up_at <= at);
        self.unconfirmed = left;
        for it in over {
            let result = unavailable(&self.last_error);
            self.answer(Decided { result, ..it.decided }, outputs);
        }
        if matches!(self.phase, Phase::Resolving { .. }) {
            let sent = self.in_flight.iter_mut();
            for decided in sent.flat_map(|batch| batch.decided.iter_mut().chain(&mut batch.confirms)) {
                if let Origin::Caller(ticket) | Origin::Poll(ticket) = decided.pending.origin
                    && decided.pending.give_up_at <= at
                {
                    decided.pending.origin = Origin::Nobody;
                    outputs.push(Output::Reply { ticket, result: Err(Failure::OutcomeUnknown) });
                }
            }
        }
        let sent = self.in_flight.iter().flat_map(|batch| batch.decided.iter().chain(&batch.confirms));
        let unconfirmed = self.unconfirmed.iter().map(|it| &it.decided);
        let waiting = sent.chain(unconfirmed).map(|decided| &decided.pending);
        let waiting = waiting.chain(&self.queue).chain(&self.parked).map(|pending| pending.give_up_at);
        self.give_up_from = waiting.filter(|give_up_at| *give_up_at > at).min().unwrap_or(Ms::MAX);
    }

    /// Answers everything that has not been sent to the store.
    pub fn abandon(&mut self, outputs: &mut Vec<Output>) -> usize {
        let mut list: Vec<Pending> = self.queue.drain(..).chain(self.parked.drain(..)).collect();
        let unconfirmed = self.unconfirmed.drain(..).chain(self.confirming.drain(..));
        list.extend(unconfirmed.map(|it| it.decided.pending));
        self.queue_bytes = 0;
        let count = list.len();
        for pending in list {
            self.answer(Decided { pending, result: Err(Failure::ShuttingDown) }, outputs);
        }
        count
    }

    pub fn take_internal(&mut self) -> Vec<(Pending, Result<Reply, Failure>)> {
        std::mem::take(&mut self.internal)
    }

    pub fn take_globals(&mut self) -> Vec<Global> {
        std::mem::take(&mut self.globals)
    }

    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// Committed messages that have not been acknowledged for a while.
    pub fn due_messages(&mut self, at: Ms, offset_ms: Ms) -> Vec<Message> {
        if !matches!(self.phase, Phase::Serving) {
            return Vec::new();
        }
        let before = self.now(at, offset_ms) - REDELIVER_MS;
        let entries = self.ws.agenda().iter().take_while(|(key, _)| key.due <= before);
        let messages = entries.filter_map(|(key, message)| Some((*key, message.clone()?)));
        messages.filter(|(key, _)| !self.unsent.contains(key)).take(256).collect()
    }

    // ---- time, ids, looks inside ---------------------------------------------------------------------

    /// The partition's time: the store's, as far as it is known, and never earlier than before.
    fn now(&self, at: Ms, offset_ms: Ms) -> Ms {
        let (base_now, base_at) = self.base;
        (at + offset_ms).max(base_now + (at - base_at).max(0)).max(self.ws.header().now)
    }

    pub fn next_wake(&self, at: Ms, offset_ms: Ms) -> Option<Ms> {
        let give_up = Some(self.give_up_from).filter(|from| *from < Ms::MAX);
        let next = self.paused_until.or_else(|| self.next_work(at, offset_ms));
        next.into_iter().chain(give_up).min()
    }

    /// When there is something to do whatever arrives.
    fn next_work(&self, at: Ms, offset_ms: Ms) -> Option<Ms> {
        match self.phase {
            // Nothing is decided before the store answers, whatever is due.
            Phase::Serving if self.in_flight.len() >= self.config.pipeline => None,
            Phase::Serving => {
                let now = self.now(at, offset_ms);
                let entries = self.ws.agenda().iter().map(|(key, _)| key);
                entries
                    .filter(|key| !self.firing.contains(key))
                    .map(|key| match (key.subject, self.failures.get(key)) {
                        (Subject::Deliver { .. }, _) => {
                            at + (key.due + REDELIVER_MS - now).max(REDELIVER_MS / 5)
                        }
                        (_, Some((_, retry_at))) => *retry_at,
                        (_, None) => at + (key.due - now),
                    })
                    .take(64)
                    .min()
            }
            Phase::Closed => Some(at),
            Phase::Opening | Phase::CatchingUp(_) | Phase::Resolving { .. } => None,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.parked.is_empty()
            && self.in_flight.is_empty()
            && self.unconfirmed.is_empty()
            && self.confirming.is_empty()
    }

    pub fn add_stats(&self, stats: &mut MachineStats) {
        stats.queued += self.queue.len() + self.parked.len();
        stats.in_flight += self.in_flight.len();
        stats.batches += self.stats.batches;
        stats.commands += self.stats.commands;
        stats.conflicts += self.stats.conflicts;
        stats.unknown_outcomes += self.stats.unknown_outcomes;
        stats.fired += self.stats.fired;
        stats.stray += self.stats.stray;
        let stuck = self.failures.iter().filter(|(_, (count, _))| *count >= FAILURES_MAX);
        stats.stuck.extend(stuck.map(|(key, _)| format!("{} {}", key.subject.kind(), key.subject.text())));
    }

    pub fn workspace(&self) -> &Workspace {
        &self.ws
    }

    pub fn settled_version(&self) -> Option<Version> {
        let settled = matches!(self.phase, Phase::Serving) && self.in_flight.is_empty();
        self.version.filter(|_| settled)
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn commit_id(&mut self, at: Ms) -> CommitId {
        let random = self.next_random();
        CommitId::from_parts(at, Route(self.partition.0), random)
    }
}

fn is_refill(ask: &Ask) -> bool {
    matches!(ask, Ask::Ready { .. } | Ask::Agenda { .. })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a defect in a rule".to_owned())
}
