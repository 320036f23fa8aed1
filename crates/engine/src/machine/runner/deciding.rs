//! A turn: what is gathered, decided, handed to workers, read ahead and committed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::change::Header;
use ff_core::commands::{Claim, Fire, decide};
use ff_core::key::Ask;
use ff_core::workspace::Stop;
use ff_core::{Command, Ms, Reply};
use ff_store::{Commit, Version};

use super::super::batch::{Batch, Decided, Message, Origin, Pending, news, waited};
use super::super::polls::Polls;
use super::super::{LoadToken, Output};
use crate::config::Bug;
use crate::failure::Failure;

use super::{FAILURES_MAX, FIRST_REACH, OUTAGE_MS, Phase, Runner, STUCK_RETRY_MS, Unconfirmed};

/// What became of the ready work that waiting workers were offered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    claimed: bool,
    /// Some of it must not start any more and has ended instead, which is to be committed although nobody is
    /// answered.
    withdrawn: bool,
}

/// Which part of a partition's cache those may take that rest, in all partitions together.
const RESTING: usize = 4;

impl Runner {
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
                self.notice_left(at, polls);
                if self.is_needed(at, offset_ms, polls) {
                    self.read(outputs);
                }
            }
            Phase::Serving => {
                self.give_up(at, outputs);
                if self.may_send() {
                    self.decide_batch(at, offset_ms, polls, outputs, commits);
                }
            }
            Phase::Resolving { seal: None } if resumed => {
                self.ask_written(outputs);
                self.give_up(at, outputs);
            }
            Phase::TakingTurn | Phase::Reading | Phase::Resolving { .. } => self.give_up(at, outputs),
        }
    }

    /// Whether a batch may follow those that are on their way. Where several servers share the store, each commit costs
    /// all of them: there one follows another only if it is no smaller.
    pub(super) fn may_send(&self) -> bool {
        let Some(last) = self.in_flight.back() else { return true };
        self.in_flight.len() < self.config.pipeline
            && (self.is_alone || self.queue.len() >= last.decided.len())
    }

    /// Reads what is missing for decisions: what others have changed, or everything.
    fn read(&mut self, outputs: &mut Vec<Output>) {
        if self.takes_turn(outputs) {
            return;
        }
        self.phase = Phase::Reading;
        let mut asks = match self.version {
            Some(known) if self.ws.is_open() => vec![Ask::Changes { since: known.number }],
            _ => vec![Ask::Opening, Ask::Agenda { after: Ms::MIN, limit: self.config.window }],
        };
        asks.append(&mut self.reread);
        self.send_load(asks, outputs);
    }

    pub(super) fn decide_batch(
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
        let served = self.serve_polls(at, now, polls, &mut decided, &mut asks);
        self.refill(served.claimed, &mut asks);
        self.read_inbox(&mut asks);
        // A turn that nobody here needs any more ends with an empty commit, so that others need not sit it out.
        let turn_unused = self.contest.has_turn() && self.parked.is_empty() && self.queue.is_empty();
        if !decided.is_empty() || served.withdrawn || turn_unused {
            self.commit_batch(at, now, header_before, decided, outputs, commits);
        }
        // After the commit, so that refills know which batch they have to wait for.
        self.send_load(asks, outputs);
        self.tidy();
    }

    /// Sends what was decided to the store, or lets it wait for confirmation if it changes nothing.
    pub(super) fn commit_batch(
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
        let turn_ends = self.contest.spend_turn();
        if changes.is_empty() && !turn_ends {
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
        let mut news = news(&changes);
        news.commands = decided.len();
        news.waited_ms = waited(&self.ws, now, &changes);
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
            sent_at: at,
            messages,
            news,
            header_before,
            outcome: None,
        });
        commits.push(Commit { partition: self.partition, expected, id, by: self.server, changes });
    }

    /// What the next batch decides, in its order: renewals and endings, what is due, the rest.
    pub(super) fn gather(&mut self, at: Ms, now: Ms) -> Vec<Pending> {
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
    pub(super) fn due(&mut self, at: Ms, now: Ms, max: usize) -> Vec<Pending> {
        let (last_commit, from) = (self.ws.header().now, now - self.late_ms());
        let entries = self.ws.agenda().iter().map(|(key, _)| *key).take_while(|key| key.due <= from);
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
    pub(super) fn decide_one(
        &mut self,
        now: Ms,
        pending: Pending,
        decided: &mut Vec<Decided>,
        asks: &mut Vec<Ask>,
    ) {
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
        // What had an effect counts when that is stored.
        if let (Origin::Agenda(key), Err(_)) = (&pending.origin, &result) {
            self.fired(*key, &result);
        }
        decided.push(Decided { pending, result });
    }

    pub(super) fn fired(&mut self, key: AgendaKey, result: &Result<Reply, Failure>) {
        let of_kind = self.stats.agenda.entry(key.subject.kind().into()).or_default();
        match result {
            Ok(Reply::Fired { effect }) => {
                // One without effect is armed again, or about something that is gone: it was waited for by nobody.
                if *effect {
                    of_kind.fired += 1;
                    of_kind.late_ms += (self.base.0 - key.due).max(0).unsigned_abs();
                }
                self.stats.fired += u64::from(*effect);
                self.stats.stray += u64::from(!effect);
                self.failures.remove(&key);
            }
            _ => {
                of_kind.failed += 1;
                let (count, retry_at) = self.failures.entry(key).or_insert((0, 0));
                *count += 1;
                let pause = if *count >= FAILURES_MAX { STUCK_RETRY_MS } else { 100 };
                *retry_at = self.base.1 + pause;
            }
        }
    }

    /// Hands ready work to workers that wait, in the same batch that made it ready.
    pub(super) fn serve_polls(
        &mut self,
        at: Ms,
        now: Ms,
        polls: &mut Polls,
        decided: &mut Vec<Decided>,
        asks: &mut Vec<Ask>,
    ) -> Served {
        let mut served = Served::default();
        self.notice_left(at, polls);
        if polls.is_empty() || !self.has_ready() {
            return served;
        }
        for waiting in polls.since_mut(self.served_since(at)) {
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
                Ok(Ok(Reply::Claimed(list))) if list.is_empty() => {
                    served.withdrawn |= self.ws.has_moved();
                    continue;
                }
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
            if let Ok(Reply::Claimed(list)) = &result {
                served.claimed = true;
                self.claimed += list.len();
            }
            waiting.busy = true;
            let (origin, give_up_at) = (Origin::Poll(waiting.ticket), waiting.give_up_at);
            decided.push(Decided { pending: Pending { origin, command, give_up_at }, result });
        }
        polls.forget_busy();
        served
    }

    pub(super) fn has_ready(&self) -> bool {
        self.ready_count() > 0
    }

    pub(super) fn ready_count(&self) -> u64 {
        let lanes = self.ws.ready().lanes();
        lanes.flat_map(|(_, classes)| classes.values()).map(|window| window.total()).sum()
    }

    /// Reads ahead, so that neither workers nor timers run into the end of a window.
    pub(super) fn refill(&mut self, claimed: bool, asks: &mut Vec<Ask>) {
        let (low, ready_low) = (self.config.window / 2, self.reach() / 2);
        let agenda = self.ws.agenda();
        if !agenda.is_whole() && agenda.len() < low {
            asks.push(Ask::Agenda { after: agenda.mark(), limit: self.config.window });
        }
        if claimed {
            for (lane, classes) in self.ws.ready().lanes() {
                for (class, window) in classes.iter().filter(|(_, it)| !it.is_whole() && it.len() < ready_low)
                {
                    let (lane, class, after) = (lane.clone(), class.clone(), window.mark());
                    asks.push(Ask::Ready { lane, class, after, limit: self.config.window });
                }
            }
        }
    }

    /// How many ready entries are read ahead: half of what workers have taken here, so that a server that has just
    /// started does not read far more of many partitions than it hands out.
    fn reach(&self) -> usize {
        (self.claimed / 2).clamp(self.config.window.min(FIRST_REACH), self.config.window)
    }

    /// Sends one load for everything that is needed and not already on its way.
    pub(super) fn send_load(&mut self, asks: Vec<Ask>, outputs: &mut Vec<Output>) {
        let mut wanted = Vec::new();
        let settled = self.settled;
        wanted.extend(self.held_refills.extract_if(.., |(batch, _)| *batch <= settled).map(|(_, ask)| ask));
        let newest = self.in_flight.back().map(|batch| batch.number);
        for ask in asks {
            let ask = match ask {
                Ask::Ready { lane, class, .. } => {
                    let Some(window) = self.ws.ready_mut().window_mut(&lane, &class) else { continue };
                    let Some(after) = window.start_refill() else { continue };
                    let limit = self.reach();
                    Ask::Ready { lane, class, after, limit }
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
    pub(super) fn settle_readonly(&mut self, decided: Vec<Decided>, outputs: &mut Vec<Output>) {
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
    pub(super) fn tidy(&mut self) {
        if self.loads == 0 {
            // What rests in any partition shares a part of the room of one, so that memory does not grow with it.
            let resting_max = self.config.cache_max / RESTING / usize::from(self.ws.partitions.max(1));
            self.ws.evict(self.settled, self.config.cache_max, resting_max, self.config.window);
        }
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
