//! Who hears what, and when.

use ff_core::{Ms, Reply};

use super::super::Output;
use super::super::batch::{Decided, Global, Message, Origin, Pending, deliveries_of};
use crate::failure::Failure;

use super::{Phase, REDELIVER_MS, Runner};

impl Runner {
    pub(super) fn answer(&mut self, decided: Decided, outputs: &mut Vec<Output>) {
        let Decided { pending, result } = decided;
        match pending.origin {
            Origin::Caller(ticket) => match result {
                Ok(reply) if !deliveries_of(&reply).is_empty() => {
                    let deliveries = deliveries_of(&reply).to_vec();
                    self.globals.push(Global { ticket, reply, deliveries });
                }
                result => outputs.push(Output::Reply { ticket, result }),
            },
            Origin::Returned(ticket) => {
                let decided = matches!(result, Ok(_) | Err(Failure::Rejected(_)));
                let result = if decided { result } else { Err(Failure::OutcomeUnknown) };
                outputs.push(Output::Reply { ticket, result });
            }
            Origin::Poll(ticket) => outputs.push(Output::Reply { ticket, result }),
            Origin::Agenda(key) => {
                if result.is_ok() {
                    self.fired(key, &result);
                }
                self.firing.remove(&key);
            }
            Origin::Delivery { entry, .. } => {
                // Where it is refused, an earlier message is missing and comes first the next time.
                if matches!(&result, Err(failure) if !matches!(failure, Failure::Rejected(_))) {
                    self.stats.agenda.entry(entry.subject.kind().into()).or_default().failed += 1;
                }
                self.internal.push((pending, result));
            }
            Origin::Acknowledgement(entry) => {
                if result.is_ok() {
                    self.fired(entry, &Ok(Reply::Fired { effect: true }));
                }
                self.internal.push((pending, result));
            }
            Origin::Errand(_) => {
                self.internal.push((pending, result));
            }
            Origin::Inbox(number) => self.received(number, result),
            Origin::Nobody => {}
        }
    }

    /// Tells callers whose time is up that the store is out of reach. A command that was sent and whose
    /// outcome is not known is never called unavailable.
    pub(super) fn give_up(&mut self, at: Ms, outputs: &mut Vec<Output>) {
        if at < self.give_up_from {
            return;
        }
        let unavailable = |origin: &Origin, error: &str| {
            let error = if error.is_empty() { "no answer yet" } else { error };
            match origin {
                // A poll whose claims were all in vain has found nothing, like one that waited in vain.
                Origin::Poll(_) => Ok(Reply::Claimed(Vec::new())),
                _ => Err(Failure::Unavailable(error.to_owned())),
            }
        };
        if self.queue.iter().chain(&self.parked).any(|pending| pending.give_up_at <= at) {
            let queue = std::mem::take(&mut self.queue);
            let parked = std::mem::take(&mut self.parked);
            let (over, left): (Vec<_>, Vec<_>) =
                parked.into_iter().chain(queue).partition(|pending| pending.give_up_at <= at);
            self.queue = left.into();
            self.queue_bytes = self.queue.iter().map(|pending| pending.command.weight()).sum();
            for pending in over {
                let result = unavailable(&pending.origin, &self.last_error);
                self.answer(Decided { pending, result }, outputs);
            }
        }
        let waiting = self.unconfirmed.drain(..).chain(self.confirming.drain(..));
        let (over, left): (Vec<_>, Vec<_>) = waiting.partition(|it| it.decided.pending.give_up_at <= at);
        self.unconfirmed = left;
        for it in over {
            let result = unavailable(&it.decided.pending.origin, &self.last_error);
            self.answer(Decided { result, ..it.decided }, outputs);
        }
        if matches!(self.phase, Phase::Resolving { .. }) {
            let sent = self.in_flight.iter_mut();
            for decided in sent.flat_map(|batch| batch.decided.iter_mut().chain(&mut batch.confirms)) {
                if let Origin::Caller(ticket) | Origin::Returned(ticket) | Origin::Poll(ticket) =
                    decided.pending.origin
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
        // Posted rows stay where they are; nobody waits for an answer.
        list.retain(|pending| !matches!(pending.origin, Origin::Inbox(_)));
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
        let before = self.now(at, offset_ms) - REDELIVER_MS - self.late_ms();
        let entries = self.ws.agenda().iter().take_while(|(key, _)| key.due <= before);
        let messages = entries.filter_map(|(key, message)| Some((*key, message.clone()?)));
        messages.filter(|(key, _)| !self.unsent.contains(key)).take(256).collect()
    }
}
