//! Messages between partitions: sent in order, acknowledged, and what waits for them.

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::commands::{Acknowledge, Apply};
use ff_core::{Command, Ms, PartitionId, Reply};
use rustc_hash::FxHashSet;
use std::sync::Arc;

use super::batch::{Global, Origin, Pending};
use super::runner::Runner;
use super::{Output, Ticket};
use crate::failure::Failure;

/// How long a message that was refused waits before it is sent again.
const RETRY_MS: Ms = 50;

#[derive(Debug)]
struct Wait {
    ticket: Ticket,
    reply: Reply,
    /// (sender, receiver, number) still to be applied.
    open: FxHashSet<(PartitionId, PartitionId, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Messages that are on their way, so that none is sent twice at once.
    under_way: FxHashSet<(PartitionId, AgendaKey)>,
    waits: Vec<Wait>,
    /// Messages that a reply waits for and that were refused, because an earlier one was missing. Another
    /// server may deliver and acknowledge them, and then no agenda speaks of them any more.
    refused: Vec<(PartitionId, AgendaKey, Arc<ff_core::message::Message>)>,
    retry_at: Option<Ms>,
}

impl Deliveries {
    pub fn send(
        &mut self,
        from: PartitionId,
        entry: AgendaKey,
        message: Arc<ff_core::message::Message>,
        runners: &mut [Runner],
    ) {
        let Subject::Deliver { to, number } = entry.subject else { return };
        if !self.under_way.insert((from, entry)) {
            return;
        }
        let command = Apply { from, number, message }.into();
        let pending = Pending { origin: Origin::Delivery { from, entry }, command, give_up_at: Ms::MAX };
        runners[to.index()].enqueue_internal(pending);
    }

    /// A message was applied or refused, or its acknowledgement was committed.
    pub fn done(
        &mut self,
        partition: PartitionId,
        pending: Pending,
        result: Result<Reply, Failure>,
        runners: &mut [Runner],
    ) {
        match pending.origin {
            Origin::Delivery { from, entry } => match (&result, entry.subject) {
                (Ok(Reply::Applied), Subject::Deliver { to, number }) => {
                    self.note_applied(from, to, number);
                    let command = Acknowledge { entry }.into();
                    let origin = Origin::Acknowledgement(entry);
                    let pending = Pending { origin, command, give_up_at: Ms::MAX };
                    runners[from.index()].enqueue_internal(pending);
                }
                // Refused because an earlier one is missing: the earlier one is sent first next time.
                (_, subject) => {
                    self.under_way.remove(&(from, entry));
                    if let (Command::Apply(apply), Subject::Deliver { to, number }) =
                        (pending.command, subject)
                        && self.waits.iter().any(|wait| wait.open.contains(&(from, to, number)))
                    {
                        self.refused.push((from, entry, apply.message));
                    }
                }
            },
            Origin::Acknowledgement(entry) => drop(self.under_way.remove(&(partition, entry))),
            _ => {}
        }
    }

    /// Sends again, after a pause, what was refused and is still waited for.
    pub fn send_refused(&mut self, at: Ms, runners: &mut [Runner]) {
        if self.refused.is_empty() {
            return;
        }
        if at < *self.retry_at.get_or_insert(at + RETRY_MS) {
            return;
        }
        self.retry_at = None;
        for (from, entry, message) in std::mem::take(&mut self.refused) {
            self.send(from, entry, message, runners);
        }
    }

    pub fn next_retry(&self) -> Option<Ms> {
        self.retry_at
    }

    fn note_applied(&mut self, from: PartitionId, to: PartitionId, number: u64) {
        for wait in &mut self.waits {
            wait.open.remove(&(from, to, number));
        }
    }

    /// Keeps a reply back until its messages are applied.
    pub fn wait_for(&mut self, from: PartitionId, global: Global) {
        let open = global.deliveries.iter().map(|delivery| (from, delivery.to, delivery.number));
        self.waits.push(Wait { ticket: global.ticket, reply: global.reply, open: open.collect() });
    }

    /// Answers everything whose messages have all been applied.
    pub fn release(&mut self, outputs: &mut Vec<Output>) {
        let mut n = 0;
        while n < self.waits.len() {
            if self.waits[n].open.is_empty() {
                let Wait { ticket, reply, .. } = self.waits.swap_remove(n);
                outputs.push(Output::Reply { ticket, result: Ok(reply) });
            } else {
                n += 1;
            }
        }
    }
}
