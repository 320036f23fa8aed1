//! What reaches a runner: commands, and what the store has read for it.

use ff_core::Ms;
use ff_core::key::Ask;
use ff_core::workspace::Answer;
use ff_store::{Loaded, Status, StoreError, Version};

use super::super::batch::{Decided, Origin, Pending};
use super::super::{LoadToken, Output};
use crate::failure::Failure;

use super::{Phase, Runner};

impl Runner {
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
            Ok(loaded) if matches!(self.phase, Phase::Reading) => self.read_done(at, loaded, outputs),
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
    pub(super) fn load_failed(&mut self, at: Ms, error: StoreError, outputs: &mut Vec<Output>) {
        self.forget_loads();
        self.ws.agenda_mut().cancel_refill();
        self.ws.ready_mut().windows_mut().for_each(|(_, _, window)| window.cancel_refill());
        self.pause(at, error.to_string());
        if matches!(self.phase, Phase::Reading) {
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
    pub(super) fn forget_loads(&mut self) {
        self.era += 1;
        self.loads = 0;
        self.asked.clear();
        self.held_refills.clear();
        self.forget_inbox_read();
    }

    pub(super) fn learn(&mut self, answer: Answer) {
        let answer = match answer {
            Answer::Inbox(rows) => {
                self.asked.retain(|ask| !matches!(ask, Ask::Inbox { .. }));
                return self.take_in(rows);
            }
            answer => answer,
        };
        match answer.key() {
            Some(key) => drop(self.asked.remove(&Ask::Record(key))),
            None => self.asked.retain(|ask| matches!(ask, Ask::Record(_))),
        }
        self.ws.learn(answer);
    }

    /// Whether a version is the newest one known, one of ours on its way, or older than what we know.
    pub(super) fn is_ours(&self, version: Version) -> bool {
        let known = self.version.unwrap_or(Version::NONE);
        version == known
            || version.number < known.number
            || self.in_flight.iter().any(|batch| batch.version() == version)
    }

    /// Takes in what was missed, or everything, and serves.
    fn read_done(&mut self, at: Ms, loaded: Loaded, outputs: &mut Vec<Output>) {
        let first = self.version.is_none();
        let foreign = self.version.is_some_and(|known| known != loaded.version);
        if !foreign && self.contest.is_on() {
            // Nobody has committed, and yet there was a conflict: it is another server's turn.
            self.step_back(at);
        }
        self.version = Some(loaded.version);
        self.asked.clear();
        let (mut keys, mut disturbed) = (None, Vec::new());
        for answer in loaded.answers {
            match answer {
                Answer::Changes(_) if !foreign => {}
                Answer::Changes(Some(missed)) => {
                    keys = Some(missed.keys());
                    if missed.has_leases_since(self.ws.header().now) {
                        (self.undisturbed, self.left_since) = (false, None);
                    }
                    disturbed = self.ws.disturbed_by(&missed);
                    self.ws.catch_up(*missed);
                }
                Answer::Changes(None) => {
                    // Nothing may be learned before the partition is opened at a version of its own.
                    (self.undisturbed, self.left_since) = (false, None);
                    disturbed = self.ws.leaseholders();
                    self.ws.forget_all();
                    break;
                }
                answer => {
                    if matches!(answer, Answer::Agenda { .. }) {
                        self.ws.agenda_mut().start_refill();
                    }
                    self.ws.learn(answer);
                }
            }
        }
        self.firing.clear();
        let open = self.ws.is_open();
        self.phase = if open { Phase::Serving } else { Phase::Closed };
        self.wanted = !open;
        if open {
            (self.fresh_at, self.seen) = (Some(at), None);
        }
        self.unpark();
        // Whoever began to wait before the first read may wait for something that has happened since.
        if foreign || first {
            let next_event = self.ws.header().next_event;
            outputs.push(Output::Foreign { partition: self.partition, keys, disturbed, next_event });
        }
    }

    pub fn status(&mut self, at: Ms, status: Status, outputs: &mut Vec<Output>) {
        self.notice_inbox(at, &status);
        if !matches!(self.phase, Phase::Serving) {
            self.seen = Some(status);
            return;
        }
        if !self.is_ours(status.version) {
            self.foreign_commit();
            self.seen = Some(status);
            return;
        }
        self.fresh_at = Some(at);
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
    pub(super) fn foreign_commit(&mut self) {
        if self.in_flight.is_empty() {
            self.fall_back();
            self.wanted = false;
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
}
