//! Make a webhook or change one: where events are delivered, and which.

use std::sync::Arc;

use super::{Decision, check_by, check_text};
use crate::Ms;
use crate::event::{By, Fact, Family};
use crate::name::{LaneName, Namespace};
use crate::registry::{Paused, Record, RecordKey, RecordKind, Webhook, check_id};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::suspension::token::Secret;
use crate::workspace::Workspace;

const URL_BYTES_MAX: usize = 2_048;
pub(super) const CURSOR_BYTES_MAX: usize = 64 << 10;

/// Says everything about a webhook but how far it has come. The same again changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SetWebhook {
    pub id: Box<str>,
    /// Whether its address may be called is said by whoever calls it.
    pub url: Box<str>,
    /// Absent: the one it has.
    pub secret: Option<Secret>,
    /// What a new webhook gets if nothing else is said. One that is there keeps its own: of two that make it at the
    /// same moment, one brings its secret.
    pub first_secret: Option<Secret>,
    /// Which events; empty means all.
    pub families: Vec<Family>,
    pub namespace: Option<Namespace>,
    pub lane: Option<LaneName>,
    /// The words of facts; empty means all.
    pub facts: Vec<Box<str>>,
    pub paused: bool,
    /// Where in the event log a new webhook begins; absent: with the oldest event that is kept.
    pub begin: Option<Box<str>>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl SetWebhook {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        check_id(&self.id)?;
        check_url(&self.url)?;
        if let Some(word) = self.facts.iter().find(|word| !Fact::WORDS.contains(&&***word)) {
            let word: String = word.chars().take(64).collect();
            let problem = format!("has {word:?}, which no event is; allowed are {}", Fact::WORDS.join(", "));
            return Err(Invalid::new("facts", problem).into());
        }
        if let Some(cursor) = &self.begin {
            check_text("begin", cursor, CURSOR_BYTES_MAX)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let by = By::new(&self.actor, &self.cause);
        let known = match ws.record(&RecordKey::webhook(&self.id))?.map(|it| &**it) {
            Some(Record::Webhook(webhook)) => Some(webhook.clone()),
            _ => None,
        };
        let before = match &known {
            Some(webhook) => webhook.clone(),
            None => self.fresh(ws, now, by.clone())?,
        };
        let paused = match (self.paused, &before.paused) {
            (true, None) => Some(Paused { at: now, by: by.clone() }),
            (true, paused) => paused.clone(),
            (false, _) => None,
        };
        let mut webhook = Webhook {
            url: self.url.clone(),
            secret: self.secret.unwrap_or(before.secret),
            families: sorted(&self.families),
            namespace: self.namespace.clone(),
            lane: self.lane.clone(),
            facts: sorted(&self.facts),
            paused,
            ..before
        };
        if known.as_ref() == Some(&webhook) {
            return Ok(Reply::Webhook(Arc::new(webhook)));
        }
        webhook.revision += 1;
        // Whoever has changed it wants to see whether it works now.
        (webhook.failures, webhook.next_at) = (0, None);
        let fact = Fact::WebhookSet {
            by,
            webhook: webhook.id.clone(),
            target: webhook.target().into(),
            paused: self.paused,
            revision: webhook.revision,
        };
        ws.emit_global(None, now, fact);
        ws.put_record(Record::Webhook(webhook.clone()));
        Ok(Reply::Webhook(Arc::new(webhook)))
    }

    /// One that nothing has been said about yet.
    fn fresh(&self, ws: &Workspace, now: Ms, by: By) -> Result<Webhook, crate::workspace::Stop> {
        let max = ws.limits.webhooks_max;
        if ws.records(RecordKind::Webhook)?.count() >= max {
            return Err(Rejection::RegistryFull { what: "webhooks".into(), max }.into());
        }
        let Some(secret) = self.secret.or(self.first_secret) else {
            return Err(Invalid::new("secret", "is missing; a new webhook needs one").into());
        };
        Ok(Webhook {
            id: self.id.clone(),
            url: self.url.clone(),
            secret,
            families: Vec::new(),
            namespace: None,
            lane: None,
            facts: Vec::new(),
            created_at: now,
            created_by: by,
            revision: 0,
            paused: None,
            server: None,
            cursor: self.begin.clone(),
            tried: 0,
            failures: 0,
            next_at: None,
            recent: Vec::new(),
        })
    }
}

fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list.dedup();
    list
}

/// A web address: scheme, host, and whatever follows; no user, no password.
fn check_url(url: &str) -> Result<(), Invalid> {
    check_text("url", url, URL_BYTES_MAX)?;
    let bad = |problem: &str| {
        let allowed = "allowed are addresses like https://example.com/path";
        Err(Invalid::new("url", format!("{problem}; {allowed}")))
    };
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return bad("begins neither with https:// nor with http://");
    };
    if url.chars().any(|c| !c.is_ascii_graphic() || c == '\\') {
        return bad("contains a blank, a backslash, or what is not ASCII");
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return bad("has a user or a password, which belongs into the secret");
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return bad("has no host");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return bad("has a port that is no number from 1 to 65535");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::limits::Limits;

    fn set(bench: &mut Bench, command: SetWebhook) -> Webhook {
        let Reply::Webhook(webhook) = bench.ok(command) else { panic!() };
        (*webhook).clone()
    }

    #[test]
    fn a_webhook_is_made_changed_and_told_without_what_is_secret() {
        let mut bench = Bench::new();
        let begin = Some("c1.7".into());
        let made = set(&mut bench, SetWebhook { begin, ..set_webhook("hook") });
        assert_eq!((made.revision, made.cursor.as_deref(), made.created_at), (1, Some("c1.7"), bench.now));
        let told = serde_json::to_string(bench.store.events.last().unwrap()).unwrap();
        assert!(told.contains("webhook_set") && told.contains("\"https://example.test\""), "{told}");
        assert!(!told.contains("/in") && !told.contains("0101"), "{told}");
        bench.pass(5);
        let change = SetWebhook {
            secret: None,
            facts: vec!["failed".into(), "completed".into(), "failed".into()],
            families: vec![Family::Execution],
            begin: Some("elsewhere".into()),
            ..set_webhook("hook")
        };
        let changed = set(&mut bench, change);
        assert_eq!((changed.revision, changed.secret, changed.created_at), (2, made.secret, made.created_at));
        assert_eq!(changed.facts, ["completed".into(), "failed".into()]);
        assert_eq!(changed.cursor, made.cursor, "a change does not move it");
    }

    #[test]
    fn the_same_again_is_no_news() {
        let mut bench = Bench::new();
        let first = set(&mut bench, SetWebhook { paused: true, ..set_webhook("hook") });
        assert_eq!(first.paused, Some(Paused { at: bench.now, by: By::new("op", "test") }));
        let events = bench.store.events.len();
        bench.pass(5);
        let again = SetWebhook { paused: true, secret: None, actor: "x".into(), ..set_webhook("hook") };
        assert_eq!(set(&mut bench, again), first);
        assert_eq!(bench.store.events.len(), events);
        assert_eq!(set(&mut bench, set_webhook("hook")).paused, None);
    }

    #[test]
    fn a_change_tries_at_once_what_has_failed() {
        let mut bench = Bench::new();
        bench.ok(set_webhook("hook"));
        bench.ok(take_webhook(None, Some("server")));
        bench.ok(note_delivery(1, None, "c1.9", 500));
        let url: Box<str> = "https://other.test/".into();
        let changed = set(&mut bench, SetWebhook { url, ..set_webhook("hook") });
        assert_eq!((changed.failures, changed.next_at, changed.recent.len()), (0, None, 1));
    }

    #[test]
    fn a_new_one_needs_a_secret_and_room() {
        let limits = Limits { webhooks_max: 1, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        let without = SetWebhook { secret: None, ..set_webhook("hook") };
        assert_eq!(bench.run(without).unwrap_err().to_string(), "secret is missing; a new webhook needs one");
        bench.ok(set_webhook("hook"));
        assert_eq!(bench.run(set_webhook("more")).unwrap_err().code(), "registry_full");
        bench.ok(SetWebhook { paused: true, ..set_webhook("hook") });
    }

    #[test]
    fn of_two_that_make_it_one_brings_its_secret() {
        let mut bench = Bench::new();
        let with =
            |byte| SetWebhook { secret: None, first_secret: Some(Secret([byte; 32])), ..set_webhook("hook") };
        let first = set(&mut bench, with(7));
        assert_eq!((first.secret, first.revision), (Secret([7; 32]), 1));
        assert_eq!(set(&mut bench, with(8)), first, "the second changes nothing");
    }

    #[test]
    fn addresses_that_cannot_be_called_are_refused() {
        for good in [
            "http://a",
            "https://example.test:8443/a?b#c",
            "http://[::1]:80/x",
            "http://127.0.0.1?x=@",
            "https://xn--4ca.test/",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        let long = format!("https://a/{}", "x".repeat(URL_BYTES_MAX));
        for bad in [
            "",
            "a",
            "ftp://a",
            "https://",
            "https:///x",
            "https://?x",
            "https://:80",
            "https://[]",
            "http://a b",
            "https://ä.test/",
            "http://a:0",
            "http://a:x",
            "http://a:65536",
            "http://[::1]:",
            "http://u:p@a/",
            "http://a\\b",
            &long,
            "http://a\n",
        ] {
            assert!(check_url(bad).is_err_and(|it| it.field == "url"), "{bad}");
        }
    }

    #[test]
    fn unknown_facts_and_ids_are_refused() {
        let bad = SetWebhook { facts: vec!["compleated".into()], ..set_webhook("hook") };
        let problem = bad.validate().unwrap_err().to_string();
        assert!(problem.contains("\"compleated\"") && problem.contains("completed, "), "{problem}");
        assert!(set_webhook("A").validate().is_err());
    }
}
