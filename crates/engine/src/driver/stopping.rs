//! The end: what is let through, and what is left behind.

use std::time::Duration;

use ff_core::Ms;
use tokio::sync::oneshot;

use crate::failure::Failure;

use super::{Driver, Group, ShutdownReport, Waiter};

impl Driver {
    pub(super) fn begin_shutdown(
        &mut self,
        grace: Duration,
        answer: Option<oneshot::Sender<ShutdownReport>>,
    ) {
        let until = self.at().saturating_add(Ms::try_from(grace.as_millis()).unwrap_or(Ms::MAX / 4));
        self.machine.close_inbox();
        let (_, answers) = self.shutdown.get_or_insert((until, Vec::new()));
        answers.extend(answer);
    }

    pub(super) fn is_over(&mut self, at: Ms) -> bool {
        let Some((until, _)) = &self.shutdown else { return false };
        let in_flight = self.machine.stats().in_flight;
        // Under a clock that tests move the grace does not pass by itself; only what the store has is waited for.
        let busy = if self.config.local_clock.is_some() { in_flight > 0 } else { !self.machine.is_idle() };
        if busy && at < *until {
            return false;
        }
        let abandoned = self.machine.abandon();
        self.carry_out();
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

    pub(super) fn say_goodbye(mut self) {
        if let Some((_, answers)) = self.shutdown.take() {
            answers.into_iter().for_each(|answer| drop(answer.send(self.report.clone())));
        }
    }
}
