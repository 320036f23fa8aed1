//! Webhooks: addresses to which servers deliver events, in order, and how far they have come.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::event::{By, Event, Family};
use crate::name::{LaneName, Namespace};
use crate::policy::{Backoff, Jitter};
use crate::suspension::token::Secret;

/// How many deliveries a webhook remembers.
pub const DELIVERIES_KEPT: usize = 50;

/// How long to wait after failures in a row: from a second to an hour, with the later half of each wait drawn.
const BACKOFF: Backoff = Backoff { initial_ms: 1_000, factor: 2.0, max_ms: 3_600_000, jitter: Jitter::Full };

/// Who stopped deliveries, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub at: Ms,
    #[serde(flatten)]
    pub by: By,
}

/// One try to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Grows by one with each try.
    pub number: u64,
    pub at: Ms,
    /// The place in the event log right after what was sent.
    pub cursor: Box<str>,
    /// How many events were sent.
    pub events: u32,
    /// What the receiver answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    pub took_ms: Ms,
    /// The how-manieth try for the same events, from 1.
    pub attempt: u32,
}

impl Delivery {
    /// Whether the receiver has the events.
    pub fn is_success(&self) -> bool {
        self.error.is_none() && self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// A webhook. Not to be handed out as it is: it has its secret in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: Box<str>,
    pub url: Box<str>,
    /// What deliveries are signed with.
    pub secret: Secret,
    /// Which events; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<Family>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// The words of facts; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Box<str>>,
    pub created_at: Ms,
    pub created_by: By,
    /// Grows with each change by people.
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Which server delivers; the others leave it alone while that one is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<str>>,
    /// The place in the event log up to which everything was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
    /// How many deliveries were tried.
    pub tried: u64,
    /// How many failed since the last that did not.
    pub failures: u32,
    /// Before when no other is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Ms>,
    /// The newest deliveries, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Delivery>,
}

impl Webhook {
    /// Whether it is about an event.
    pub fn wants(&self, event: &Event) -> bool {
        (self.families.is_empty() || self.families.contains(&event.fact.family()))
            && (self.facts.is_empty() || self.facts.iter().any(|word| **word == *event.fact.word()))
            && self.namespace.as_ref().is_none_or(|it| event.namespace.as_ref() == Some(it))
            && self.lane.as_ref().is_none_or(|it| event.lane.as_ref() == Some(it))
    }

    /// The server it goes to, without what may be secret in its address.
    pub fn target(&self) -> &str {
        let start = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[start..].find(['/', '?', '#']).map_or(self.url.len(), |at| start + at);
        &self.url[..end]
    }

    /// Takes in what became of a delivery.
    pub(crate) fn note(&mut self, delivery: Delivery, now: Ms, seed: u64) {
        self.tried = delivery.number;
        if delivery.is_success() {
            self.cursor = Some(delivery.cursor.clone());
            self.failures = 0;
            self.next_at = None;
        } else {
            self.failures = self.failures.saturating_add(1);
            self.next_at = Some(now.saturating_add(wait_ms(self.failures, seed)));
        }
        self.recent.push(delivery);
        let old = self.recent.len().saturating_sub(DELIVERIES_KEPT);
        self.recent.drain(..old);
    }
}

/// Never less than half of what the number of failures asks for: a receiver that is down is left alone.
fn wait_ms(failures: u32, seed: u64) -> Ms {
    let full = Backoff { jitter: Jitter::None, ..BACKOFF }.delay_ms(failures, 0);
    let half = Backoff { initial_ms: full - full / 2, factor: 1.0, ..BACKOFF };
    full / 2 + half.delay_ms(1, seed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::Fact;

    pub(crate) fn sample() -> Webhook {
        Webhook {
            id: "hook".into(),
            url: "https://example.test/in?key=1".into(),
            secret: Secret([7; 32]),
            families: vec![Family::Execution],
            namespace: Some(Namespace::default()),
            lane: Some(LaneName::default()),
            facts: vec!["woken".into()],
            created_at: 1,
            created_by: By::new("ada", "chat"),
            revision: 1,
            paused: None,
            server: None,
            cursor: None,
            tried: 0,
            failures: 0,
            next_at: None,
            recent: Vec::new(),
        }
    }

    fn event(fact: Fact) -> Event {
        Event {
            number: 1,
            at: 1,
            execution: None,
            flow: None,
            namespace: Some(Namespace::default()),
            lane: Some(LaneName::default()),
            tags: Default::default(),
            fact,
        }
    }

    #[test]
    fn it_wants_what_every_filter_lets_pass() {
        let woken = event(Fact::Woken);
        assert!(sample().wants(&woken));
        assert!(!sample().wants(&event(Fact::Removed { by: None })), "another fact of the same family");
        let hooks = [
            Webhook { families: vec![Family::Lease], ..sample() },
            Webhook { facts: vec!["removed".into()], ..sample() },
            Webhook { namespace: Namespace::parse("other").ok(), ..sample() },
            Webhook { lane: LaneName::parse("other").ok(), ..sample() },
        ];
        assert!(hooks.iter().all(|hook| !hook.wants(&woken)));
        let all = Webhook { families: vec![], facts: vec![], namespace: None, lane: None, ..sample() };
        assert!(all.wants(&woken) && all.wants(&Event { namespace: None, lane: None, ..woken }));
    }

    #[test]
    fn its_target_is_told_without_path_and_query() {
        for (url, target) in [
            ("https://example.test/in?key=1", "https://example.test"),
            ("http://example.test:8080?key=1", "http://example.test:8080"),
            ("http://[::1]:1#x", "http://[::1]:1"),
            ("https://example.test", "https://example.test"),
        ] {
            assert_eq!(Webhook { url: url.into(), ..sample() }.target(), target);
        }
    }

    #[test]
    fn waits_grow_from_a_second_to_an_hour_and_are_spread() {
        let bounds = |failures| {
            let waits = (0..200).map(|seed| wait_ms(failures, seed));
            (waits.clone().min().unwrap(), waits.max().unwrap())
        };
        for (failures, full) in [(1, 1_000), (2, 2_000), (5, 16_000), (13, 3_600_000), (1_000, 3_600_000)] {
            let (least, most) = bounds(failures);
            assert!(least >= full / 2 && most <= full, "{failures}: {least} to {most}");
            assert!(most - least > full / 4, "{failures}: {least} to {most}");
        }
    }

    #[test]
    fn its_secret_does_not_print() {
        assert!(!format!("{:?}", sample()).contains("07"), "{:?}", sample());
    }
}
