//! What became of commits: finished, decided again, or found out.

use ff_core::change::Changes;
use ff_core::key::Ask;
use ff_core::{CommitId, Ms};
use ff_store::{Commit, Outcome, StoreError, Written};

use super::super::Output;
use super::super::batch::{Decided, Origin, Pending};
use crate::config::Bug;
use crate::failure::Failure;

use super::{Phase, Runner};

impl Runner {
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
    pub(super) fn work_off(&mut self, at: Ms, outputs: &mut Vec<Output>) {
        while matches!(self.phase, Phase::Serving)
            && let Some(outcome) = self.in_flight.front_mut().and_then(|batch| batch.outcome.take())
        {
            match outcome {
                Outcome::Committed { .. } => self.finish_oldest(at, outputs),
                Outcome::Conflict => {
                    self.stats.conflicts += 1;
                    let sent_at = self.in_flight.front().map_or(at, |batch| batch.sent_at);
                    self.contest.lost(at - sent_at);
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

    pub(super) fn finish_oldest(&mut self, _at: Ms, outputs: &mut Vec<Output>) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        self.version = Some(batch.version());
        self.settled = batch.number;
        self.stats.batches += 1;
        self.contest.won();
        self.paused_until = None;
        self.pause_ms = self.config.backoff_ms.0;
        self.batch_limit = (self.batch_limit * 2).min(self.config.batch_max);
        for (entry, _) in &batch.messages {
            self.unsent.remove(entry);
        }
        self.messages.extend(batch.messages);
        self.undisturbed |= batch.decided.iter().any(Decided::is_claim);
        for decided in batch.decided.into_iter().chain(batch.confirms) {
            self.answer(decided, outputs);
        }
        outputs.push(Output::News { partition: self.partition, news: batch.news });
        self.tidy();
    }

    /// The store refuses a batch for what is in it: halve it until the guilty command is alone.
    pub(super) fn take_apart(&mut self, error: String, outputs: &mut Vec<Output>) {
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

    pub(super) fn ask_written(&mut self, outputs: &mut Vec<Output>) {
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
                    by: self.server,
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
    pub(super) fn sealed(&mut self, at: Ms, outcome: Outcome, outputs: &mut Vec<Output>) {
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

    /// Takes back what was decided but not committed; its commands are decided again on a fresh view.
    pub(super) fn fall_back(&mut self) {
        let mut again = Vec::new();
        for batch in self.in_flight.drain(..) {
            again.extend(batch.decided.into_iter().chain(batch.confirms).map(|decided| decided.pending));
        }
        let unconfirmed = self.confirming.drain(..).chain(self.unconfirmed.drain(..));
        again.extend(unconfirmed.map(|it| it.decided.pending));
        again.append(&mut self.parked);
        self.drop_rows(&mut again);
        self.ws.undo(self.settled);
        self.unsent.clear();
        self.firing.clear();
        self.reread.extend(self.asked.drain().filter(|ask| matches!(ask, Ask::Record(_))));
        self.forget_loads();
        self.phase = Phase::Closed;
        self.wanted = true;
        self.requeue(again);
    }

    pub(super) fn unpark(&mut self) {
        let parked = std::mem::take(&mut self.parked);
        self.requeue(parked);
    }

    /// Puts commands back in front of the queue, in order. Agenda entries are found again in the agenda.
    pub(super) fn requeue(&mut self, pending: Vec<Pending>) {
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

    pub(super) fn pause(&mut self, at: Ms, error: String) {
        self.last_error = error;
        self.paused_until = Some(at + self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(self.config.backoff_ms.1);
    }
}
