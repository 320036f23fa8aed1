//! Messages between partitions: sent in order, acknowledged, and what waits for them.

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::commands::{Acknowledge, Apply};
use ff_core::{Ms, PartitionId, Reply};
use rustc_hash::FxHashSet;
use std::sync::Arc;

use super::batch::{Global, Origin, Pending};
use super::runner::Runner;
use super::{Output, Ticket};
use crate::failure::Failure;

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
        origin: Origin,
        result: Result<Reply, Failure>,
        runners: &mut [Runner],
    ) {
        match origin {
            Origin::Delivery { from, entry } => match (&result, entry.subject) {
                (Ok(Reply::Applied), Subject::Deliver { to, number }) => {
                    self.note_applied(from, to, number);
                    let command = Acknowledge { entry }.into();
                    let origin = Origin::Acknowledgement(entry);
                    let pending = Pending { origin, command, give_up_at: Ms::MAX };
                    runners[from.index()].enqueue_internal(pending);
                }
                // Refused because an earlier one is missing: the earlier one is sent first next time.
                _ => drop(self.under_way.remove(&(from, entry))),
            },
            Origin::Acknowledgement(entry) => drop(self.under_way.remove(&(partition, entry))),
            _ => {}
        }
    }

    fn note_applied(&mut self, from: PartitionId, to: PartitionId, number: u64) {
        for wait in &mut self.waits {
            wait.open.remove(&(from, to, number));
        }
    }

    /// Keeps a reply back until its messages are applied. One that is no longer in the sender's agenda has
    /// been.
    pub fn wait_for(&mut self, from: PartitionId, global: Global, sender: &Runner) {
        let open = global.deliveries.iter().filter(|delivery| sender.is_undelivered(delivery));
        let open = open.map(|delivery| (from, delivery.to, delivery.number));
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
