//! Note what became of a delivery. A server that went on from a place the webhook has left is told so, so that two
//! servers do not fight over one webhook. It is no event: that would be delivered, and noted, for ever.

use std::sync::Arc;

use super::set_webhook::CURSOR_BYTES_MAX;
use super::{Decision, check_text};
use crate::Ms;
use crate::registry::{Delivery, Record, RecordKey, Webhook};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

const ERROR_BYTES_MAX: usize = 1 << 10;

/// A request that was sent, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// One more than the webhook has tried.
    pub number: u64,
    pub events: u32,
    pub status: Option<u16>,
    pub error: Option<Box<str>>,
    pub took_ms: Ms,
}

/// Moves a webhook on from one place in the event log to another, or notes that this failed.
#[derive(Clone, Debug, PartialEq)]
pub struct NoteDelivery {
    pub webhook: Box<str>,
    /// Who delivers.
    pub server: Box<str>,
    /// Where it stood.
    pub from: Option<Box<str>>,
    pub to: Box<str>,
    /// Absent if nothing between the two places was for it.
    pub sent: Option<Sent>,
    /// Random, to spread the next try after a failure.
    pub seed: u64,
}

impl NoteDelivery {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        check_text("to", &self.to, CURSOR_BYTES_MAX)?;
        if let Some(error) = self.sent.as_ref().and_then(|it| it.error.as_ref()) {
            check_text("error", error, ERROR_BYTES_MAX)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let known = match ws.record(&RecordKey::webhook(&self.webhook))?.map(|it| &**it) {
            Some(Record::Webhook(webhook)) => webhook,
            _ => {
                return Err(
                    Rejection::NotFound { what: "webhook".into(), id: self.webhook.to_string() }.into()
                );
            }
        };
        if self.is_noted(known) {
            return Ok(Reply::Webhook(Arc::new(known.clone())));
        }
        let next = known.tried + 1;
        let others = known.server.as_ref() != Some(&self.server);
        if others || known.cursor != self.from || self.sent.as_ref().is_some_and(|it| it.number != next) {
            return Err(Rejection::DeliverySuperseded { webhook: self.webhook.clone() }.into());
        }
        let mut webhook = known.clone();
        match &self.sent {
            None => webhook.cursor = Some(self.to.clone()),
            Some(sent) => {
                let delivery = Delivery {
                    number: sent.number,
                    at: now,
                    cursor: self.to.clone(),
                    events: sent.events,
                    status: sent.status,
                    error: sent.error.clone(),
                    took_ms: sent.took_ms,
                    attempt: webhook.failures.saturating_add(1),
                };
                webhook.note(delivery, now, self.seed);
            }
        }
        ws.put_record(Record::Webhook(webhook.clone()));
        Ok(Reply::Webhook(Arc::new(webhook)))
    }

    /// Whether it is the newest that was noted, sent again because its answer was lost.
    fn is_noted(&self, webhook: &Webhook) -> bool {
        let (Some(sent), Some(last)) = (&self.sent, webhook.recent.last()) else { return false };
        let same = (last.number, last.events, last.status) == (sent.number, sent.events, sent.status);
        same && last.cursor == self.to && last.error == sent.error && last.took_ms == sent.took_ms
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::DELIVERIES_KEPT;

    fn bench() -> Bench {
        let mut bench = Bench::new();
        bench.ok(set_webhook("hook"));
        bench.ok(take_webhook(None, Some("server")));
        bench
    }

    fn noted(bench: &mut Bench, note: NoteDelivery) -> Webhook {
        let Reply::Webhook(webhook) = bench.ok(note) else { panic!() };
        (*webhook).clone()
    }

    #[test]
    fn success_moves_the_cursor_and_failure_puts_the_next_try_off() {
        let mut bench = bench();
        let events = bench.store.events.len();
        let failed = noted(&mut bench, note_delivery(1, None, "c1.5", 503));
        assert_eq!((failed.cursor.as_deref(), failed.failures, failed.tried), (None, 1, 1));
        assert!(failed.next_at.is_some_and(|at| at > bench.now && at <= bench.now + 1_000));
        let mut broken = note_delivery(2, None, "c1.5", 200);
        broken.sent.as_mut().unwrap().error = Some("cut off".into());
        assert_eq!(noted(&mut bench, broken).failures, 2, "an answer that was cut off is no success");
        let done = noted(&mut bench, note_delivery(3, None, "c1.5", 204));
        assert_eq!((done.cursor.as_deref(), done.failures, done.next_at), (Some("c1.5"), 0, None));
        let attempts: Vec<_> = done.recent.iter().map(|it| (it.number, it.attempt, it.status)).collect();
        assert_eq!(attempts, [(1, 1, Some(503)), (2, 2, Some(200)), (3, 3, Some(204))]);
        assert_eq!(bench.store.events.len(), events, "it is no event");
    }

    #[test]
    fn a_redirect_is_a_failure() {
        let mut bench = bench();
        assert_eq!(noted(&mut bench, note_delivery(1, None, "c1.5", 302)).failures, 1);
    }

    #[test]
    fn whoever_starts_from_a_place_it_has_left_is_told_so() {
        let mut bench = bench();
        let first = noted(&mut bench, note_delivery(1, None, "c1.5", 200));
        let again = noted(&mut bench, note_delivery(1, None, "c1.5", 200));
        assert_eq!(again, first, "the same delivery is noted once");
        for late in [
            note_delivery(1, None, "c1.5", 500),
            note_delivery(2, None, "c1.5", 200),
            note_delivery(1, Some("c1.5"), "c1.6", 200),
            note_delivery(3, Some("c1.5"), "c1.6", 200),
            NoteDelivery { sent: None, ..note_delivery(2, None, "c1.6", 200) },
            NoteDelivery { server: "other".into(), ..note_delivery(2, Some("c1.5"), "c1.6", 200) },
        ] {
            assert_eq!(bench.run(late.clone()).unwrap_err().code(), "delivery_superseded", "{late:?}");
        }
        bench.ok(note_delivery(2, Some("c1.5"), "c1.6", 200));
    }

    #[test]
    fn two_servers_that_fail_at_once_count_as_one_failure() {
        let mut bench = bench();
        bench.ok(note_delivery(1, None, "c1.5", 500));
        let mut other = note_delivery(1, None, "c1.4", 0);
        other.sent = Some(Sent { status: None, error: Some("refused".into()), ..other.sent.unwrap() });
        assert_eq!(bench.run(other).unwrap_err().code(), "delivery_superseded");
    }

    #[test]
    fn what_is_not_for_it_moves_it_on_without_a_delivery() {
        let mut bench = bench();
        let passed = NoteDelivery { sent: None, ..note_delivery(1, None, "c1.9", 200) };
        let webhook = noted(&mut bench, passed);
        assert_eq!((webhook.cursor.as_deref(), webhook.tried, webhook.recent.len()), (Some("c1.9"), 0, 0));
    }

    #[test]
    fn the_newest_deliveries_are_remembered() {
        let mut bench = bench();
        for number in 1..=DELIVERIES_KEPT as u64 + 3 {
            bench.ok(note_delivery(number, None, "c1.5", 500));
        }
        let Some(Record::Webhook(webhook)) =
            bench.store.registry.get(&RecordKey::webhook("hook")).map(|it| &**it)
        else {
            panic!()
        };
        assert_eq!((webhook.recent.len(), webhook.recent[0].number), (DELIVERIES_KEPT, 4));
        assert_eq!(webhook.failures, DELIVERIES_KEPT as u32 + 3);
    }

    #[test]
    fn a_webhook_that_is_gone_takes_nothing() {
        let mut bench = bench();
        bench.ok(remove_webhook("hook"));
        assert_eq!(bench.run(note_delivery(1, None, "c1.5", 200)).unwrap_err().code(), "not_found");
        let mut long = note_delivery(1, None, "c1.5", 200);
        long.sent.as_mut().unwrap().error = Some("x".repeat(2_000).into());
        assert!(long.validate().is_err());
    }
}
