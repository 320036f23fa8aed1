//! Send a signal: by waitpoint, by the token of a waitpoint, or by execution and name.

use std::sync::Arc;

use super::mail::{claims, go_on, met, refusal};
use super::open_waitpoint::check_source;
use super::{Decision, check_text};
use crate::Ms;
use crate::event::Fact;
use crate::execution::Execution;
use crate::id::ExecutionId;
use crate::key::{Dedup, DedupKey};
use crate::limits::Limits;
use crate::name::SignalName;
use crate::payload::Payload;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::suspension::{
    Arrived, Digest, Effect, Ignored, Mailbox, ResumedBy, Sender, Signal, SigningKey, Token, Via, WaitpointId,
};
use crate::workspace::{Stop, Workspace};

/// Where a signal goes.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// Any suspension of the execution that asks for its name, now or later.
    Execution(ExecutionId),
    Waitpoint(WaitpointId),
    /// The waitpoint that the token is good for.
    Token(Token),
}

impl To {
    pub fn execution(&self) -> ExecutionId {
        match self {
            To::Execution(id) => *id,
            To::Waitpoint(waitpoint) => waitpoint.execution,
            To::Token(token) => token.waitpoint.execution,
        }
    }

    /// The waitpoint it is sent to, if it is sent to one.
    fn waitpoint(&self) -> Option<WaitpointId> {
        match self {
            To::Execution(_) => None,
            To::Waitpoint(waitpoint) => Some(*waitpoint),
            To::Token(token) => Some(token.waitpoint),
        }
    }
}

/// Something has happened outside that an execution may wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct SendSignal {
    pub to: To,
    /// Its name; that of the waitpoint if it is left out.
    pub name: Option<SignalName>,
    pub payload: Payload,
    /// Who sends it, as it says.
    pub source: Option<Box<str>>,
    /// Who sends it, as the server has found out; absent where nobody looked.
    pub principal: Option<Box<str>>,
    pub correlation: Option<Box<str>>,
    /// The same key again within a day is a duplicate.
    pub key: Option<Box<str>>,
    /// SHA-256 of the action that the sender has seen.
    pub digest: Option<Digest>,
}

impl SendSignal {
    pub fn new(to: To) -> SendSignal {
        let payload = Payload::json("null");
        SendSignal {
            to,
            name: None,
            payload,
            source: None,
            principal: None,
            correlation: None,
            key: None,
            digest: None,
        }
    }

    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        let (size, max) = (self.payload.len(), limits.signal_bytes_max);
        if size > max {
            return Err(
                Invalid::new("payload", format!("has {size} bytes; allowed are at most {max}")).into()
            );
        }
        check_text("content_type", &self.payload.content_type, 256)?;
        if let Some(source) = &self.source {
            check_source("source", source)?;
        }
        if let Some(principal) = &self.principal {
            check_source("principal", principal)?;
        }
        if let Some(text) = &self.correlation {
            check_text("correlation", text, 256)?;
        }
        if let Some(key) = &self.key {
            if key.is_empty() {
                let problem = "is empty; leave it out or give it a value";
                return Err(Invalid::new("idempotency_key", problem).into());
            }
            check_text("idempotency_key", key, limits.idempotency_key_bytes_max)?;
        }
        if matches!(self.to, To::Execution(_)) && self.name.is_none() {
            let problem = "is missing; a signal to an execution needs one, unless it goes to a waitpoint";
            return Err(Invalid::new("name", problem).into());
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = self.recipient(ws, now)?;
        let execution = current.id;
        let answer = |effect| Ok(Reply::Signalled { execution, effect, number: None });
        if let Some(end) = current.end() {
            let (state, reason) = (end.state, end.reason);
            return Err(Rejection::Terminal { execution, state, reason }.into());
        }
        let mut changed = (*current).clone();
        let mailbox = changed.mailbox_mut();
        let asked = self.to.waitpoint();
        if let Some(id) = asked.filter(|it| it.number > mailbox.opened || it.number == 0) {
            return Err(Rejection::NotFound { what: "waitpoint".into(), id: id.to_string() }.into());
        }
        let dedup_key = self.dedup_key(&current);
        if let Some(key) = &dedup_key
            && ws.dedup(key)?.is_some_and(|dedup| dedup.expires_at > now)
        {
            return answer(Effect::Duplicate);
        }
        let waitpoint = match (asked, &self.name) {
            (Some(WaitpointId { number, .. }), _) => match mailbox.waitpoint(number) {
                Some(open) => Some(open),
                None => return answer(Effect::Ignored(Ignored::Closed)),
            },
            (None, Some(name)) => mailbox.waitpoint_named(name),
            (None, None) => None,
        };
        if let (Some(waitpoint), Some(name)) = (waitpoint, &self.name)
            && waitpoint.name.as_ref() != Some(name)
        {
            // A token opens one waitpoint and no other; whoever may signal the execution still goes by the rules of the
            // waitpoint that has the name. Only a waitpoint without a name leaves it to them.
            let other = waitpoint.name.is_some() || mailbox.waitpoint_named(name).is_some();
            if other || matches!(self.to, To::Token(_)) {
                let problem = format!("is {name}, which is not the name of the waitpoint; leave it out");
                return Err(Rejection::from(Invalid::new("name", problem)).into());
            }
        }
        if let Some(waitpoint) = waitpoint {
            let sender = self.sender();
            let used = || mailbox.signals.iter().filter(|it| it.waitpoint == Some(waitpoint.number));
            let again = waitpoint.distinct_sources && used().any(|it| it.sender().name() == sender.name());
            let other = self.digest.is_some() && self.digest != waitpoint.digest;
            // Whoever holds a token can say anything of its source, and make the token if it may signal at all.
            let unknown =
                waitpoint.known_sources && self.principal.is_none() && matches!(self.to, To::Token(_));
            let why = unknown
                .then_some(Ignored::NoSource)
                .or(refusal(waitpoint, sender))
                .or(again.then_some(Ignored::SameSource))
                .or(other.then_some(Ignored::OtherAction));
            if let Some(why) = why {
                return answer(Effect::Ignored(why));
            }
        }
        let name = self.name.clone().or_else(|| waitpoint.and_then(|it| it.name.clone()));
        let waitpoint = waitpoint.map(|it| it.number);
        self.take_one(mailbox, &ws.limits)?;
        let number = mailbox.received;
        let (source, correlation) = (self.source.clone(), self.correlation.clone());
        let arrived = Arrived {
            number,
            name: name.clone(),
            waitpoint,
            source: source.clone(),
            principal: self.principal.clone(),
            child: None,
        };
        let wanted = changed.suspension().is_some_and(|it| it.condition.wants(&arrived));
        changed.mailbox_mut().signals.push(arrived);
        let met = met(&changed);
        let effect = match (&met, wanted) {
            (Some(_), _) => Effect::Satisfied,
            (None, true) => Effect::Counted,
            (None, false) => Effect::Buffered,
        };
        let payload = self.payload.clone();
        let event = Fact::SignalReceived {
            number,
            name: name.clone(),
            waitpoint,
            source: source.clone(),
            principal: self.principal.clone(),
            via: self.via(),
            effect,
        };
        ws.put_signal(Signal { execution, number, at: now, name, waitpoint, source, correlation, payload });
        ws.emit(&changed, now, event);
        if let Some(met) = met {
            go_on(ws, &mut changed, now, ResumedBy::Signals, &met, None);
        }
        if let Some(key) = dedup_key {
            let expires_at = now.saturating_add(ws.limits.idempotency_window_ms);
            ws.put_dedup(key, Some(Dedup { execution, expires_at }));
        }
        ws.put_execution(changed, now);
        Ok(Reply::Signalled { execution, effect, number: Some(number) })
    }

    /// Counts it, if there is room for one more. Holders of a token have little of it, so that they leave the rest to
    /// others.
    fn take_one(&self, mailbox: &mut Mailbox, limits: &Limits) -> Result<(), Rejection> {
        let execution = self.to.execution();
        let max = limits.signals_max;
        if mailbox.received as usize >= max {
            return Err(Rejection::TooManySignals { execution, max });
        }
        if let To::Token(Token { waitpoint, .. }) = self.to
            && let Some(open) = mailbox.waitpoints.iter_mut().find(|it| it.number == waitpoint.number)
        {
            let max = limits.token_signals_max;
            if open.token_signals as usize >= max {
                return Err(Rejection::TooManyTokenSignals { waitpoint, max });
            }
            open.token_signals += 1;
        }
        mailbox.received += 1;
        Ok(())
    }

    fn via(&self) -> Option<Via> {
        match (&self.to, &self.principal) {
            (To::Token(_), _) => Some(Via::Token),
            (_, Some(_)) => Some(Via::Access),
            (_, None) => None,
        }
    }

    /// The execution it is for. A token that is not good for it gets one answer, whatever is wrong with it.
    fn recipient(&self, ws: &Workspace, now: Ms) -> Result<Arc<Execution>, Stop> {
        let To::Token(token) = &self.to else { return Ok(ws.require(self.to.execution())?.clone()) };
        let Some(execution) = ws.execution(token.waitpoint.execution)? else {
            return Err(Rejection::TokenRefused.into());
        };
        if token_is_good(execution, ws.signing_key(token.key).map(|it| &**it), token, now) {
            Ok(execution.clone())
        } else {
            Err(Rejection::TokenRefused.into())
        }
    }

    fn sender(&self) -> Sender<'_> {
        Sender { principal: self.principal.as_deref(), source: self.source.as_deref() }
    }

    fn dedup_key(&self, execution: &Execution) -> Option<DedupKey> {
        let key = self.key.as_deref()?;
        let namespace = execution.spec.namespace.clone();
        Some(match self.to.waitpoint() {
            Some(waitpoint) => DedupKey::of_signal_at(namespace, waitpoint, key),
            None => DedupKey::of_signal(namespace, execution.id, key),
        })
    }
}

/// Whether a token speaks for a waitpoint of an execution, open or closed, under the key it names.
pub fn token_is_good(execution: &Execution, key: Option<&SigningKey>, token: &Token, now: Ms) -> bool {
    let number = token.waitpoint.number;
    let known = execution.mailbox().and_then(|mailbox| {
        let open = mailbox.waitpoint(number).map(|it| (it.expires_at, it.digest));
        let closed = || mailbox.closed.iter().find(|it| it.number == number);
        open.or_else(|| closed().map(|it| (it.expires_at, it.digest)))
    });
    let key = key.filter(|key| !key.is_retired(now));
    let (Some((expires_at, digest)), Some(key)) = (known, key) else { return false };
    let verified = claims(execution, number, expires_at, digest).verify(key, token);
    verified && expires_at.is_none_or(|at| now < at)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{NewWaitpoint, OpenWaitpoint, Suspend};
    use super::*;
    use crate::execution::Fence;
    use crate::suspension::{Condition, Distinct, Match, TokenText};

    fn effect(reply: Reply) -> &'static str {
        match reply {
            Reply::Signalled { effect: Effect::Ignored(why), .. } => why.word(),
            Reply::Signalled { effect, .. } => effect.word(),
            other => panic!("{other:?}"),
        }
    }

    fn at(fence: Fence, number: u32, source: &str) -> SendSignal {
        let to = To::Waitpoint(WaitpointId { execution: fence.execution, number });
        SendSignal { source: Some(source.into()), ..SendSignal::new(to) }
    }

    fn with_token(text: &str) -> SendSignal {
        SendSignal::new(To::Token(text.parse().unwrap()))
    }

    /// A lease with a waitpoint, and the token of it.
    fn waitpoint(bench: &mut Bench, edit: impl FnOnce(&mut NewWaitpoint)) -> (Fence, TokenText) {
        if bench.ws.newest_key().is_none() {
            bench.ok(rotate_key(1, 0));
        }
        let fence = bench.active();
        let mut open = open_waitpoint(fence, "board");
        edit(&mut open.waitpoint);
        open.validate(&bench.ws.limits).unwrap();
        let Reply::WaitpointOpened { token: Some(token), .. } = bench.ok(open) else { panic!() };
        (fence, token)
    }

    #[test]
    fn a_signal_through_a_waitpoint_does_not_speak_for_another() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |it| it.name = None);
        let mut guarded = open_waitpoint(fence, "approved");
        guarded.waitpoint.approvers = vec!["ann".into()];
        bench.ok(guarded);
        let named = |signal: SendSignal, name: &str| SendSignal {
            name: Some(SignalName::parse(name).unwrap()),
            ..signal
        };
        for signal in [with_token(token.reveal()), at(fence, 1, "bob")] {
            let refused = bench.refused(named(signal, "approved"));
            assert!(matches!(&refused, Rejection::Invalid(it) if it.field == "name"), "{refused:?}");
        }
        // A name that no open waitpoint has is for those who may signal the execution.
        let refused = bench.refused(named(with_token(token.reveal()), "paid"));
        assert!(matches!(&refused, Rejection::Invalid(it) if it.field == "name"), "{refused:?}");
        assert_eq!(effect(bench.ok(named(at(fence, 1, "bob"), "paid"))), "buffered");
        assert_eq!(effect(bench.ok(named(at(fence, 2, "ann"), "approved"))), "buffered");
        let refused = bench.refused(named(at(fence, 2, "ann"), "paid"));
        assert!(matches!(&refused, Rejection::Invalid(it) if it.field == "name"), "{refused:?}");
    }

    #[test]
    fn a_signal_says_what_it_did() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let id = fence.execution;
        assert_eq!(effect(bench.ok(signal(id, "go"))), "buffered");
        let two = vec![Match::named(signal_name("go"))];
        let condition = Condition::Count { n: 3, distinct: Distinct::Signals, of: two };
        bench.ok(Suspend::new(fence, condition));
        assert_eq!(effect(bench.ok(signal(id, "other"))), "buffered");
        assert_eq!(effect(bench.ok(signal(id, "go"))), "counted");
        let keyed = SendSignal { key: Some("k".into()), ..signal(id, "go") };
        assert_eq!(effect(bench.ok(keyed.clone())), "satisfied");
        assert_eq!(effect(bench.ok(keyed)), "duplicate");
        assert_eq!(bench.store.signals.len(), 4);
        let fence = bench.claim();
        bench.ok(complete(fence));
        assert_eq!(bench.refused(signal(id, "go")).code(), "terminal");
        let nobody = bench.next_id();
        assert_eq!(bench.refused(signal(nobody, "go")).code(), "not_found");
    }

    #[test]
    fn a_key_counts_for_a_day_and_for_one_execution() {
        let mut bench = Bench::new();
        let (one, other) = (bench.create(), bench.create());
        let keyed = |id| SendSignal { key: Some("k".into()), ..signal(id, "go") };
        assert_eq!(effect(bench.ok(keyed(one))), "buffered");
        assert_eq!(effect(bench.ok(keyed(other))), "buffered");
        bench.pass(24 * 3_600_000 - 1);
        assert_eq!(effect(bench.ok(keyed(one))), "duplicate");
        bench.pass(1);
        assert_eq!(effect(bench.ok(keyed(one))), "buffered");
    }

    #[test]
    fn a_waitpoint_takes_only_what_it_allows() {
        let mut bench = Bench::new();
        let (fence, _) = waitpoint(&mut bench, |it| {
            it.approvers = vec!["ann".into(), "bob".into(), "cy".into()];
            it.requester = Some("cy".into());
            it.distinct_sources = true;
            it.digest = Some(Digest([7; 32]));
        });
        let nameless = SendSignal { source: None, ..at(fence, 1, "ann") };
        assert_eq!(effect(bench.ok(nameless)), "no_source");
        assert_eq!(effect(bench.ok(at(fence, 1, "eve"))), "not_an_approver");
        assert_eq!(effect(bench.ok(at(fence, 1, "cy"))), "own_request");
        let other = SendSignal { digest: Some(Digest([8; 32])), ..at(fence, 1, "ann") };
        assert_eq!(effect(bench.ok(other)), "other_action");
        let same = SendSignal { digest: Some(Digest([7; 32])), ..at(fence, 1, "ann") };
        assert_eq!(effect(bench.ok(same)), "buffered");
        assert_eq!(effect(bench.ok(at(fence, 1, "ann"))), "same_source");
        // The name of the waitpoint is no way around it.
        let by_name =
            |source: &str| SendSignal { source: Some(source.into()), ..signal(fence.execution, "board") };
        assert_eq!(effect(bench.ok(by_name("eve"))), "not_an_approver");
        assert_eq!(effect(bench.ok(by_name("ann"))), "same_source");
        assert_eq!(bench.store.signals.len(), 1, "what is ignored is not kept");
        let condition = Condition::Count { n: 2, distinct: Distinct::Sources, of: vec![Match::waitpoint(1)] };
        bench.ok(Suspend::new(fence, condition));
        assert_eq!(effect(bench.ok(by_name("bob"))), "satisfied");
        assert_eq!(effect(bench.ok(at(fence, 1, "bob"))), "waitpoint_closed");
        assert_eq!(bench.refused(at(fence, 2, "bob")).code(), "not_found");
    }

    fn known(signal: SendSignal, principal: &str, source: &str) -> SendSignal {
        SendSignal { principal: Some(principal.into()), source: Some(source.into()), ..signal }
    }

    #[test]
    fn who_is_known_counts_once_whatever_it_calls_itself() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |it| it.distinct_sources = true);
        let there = at(fence, 1, "");
        assert_eq!(effect(bench.ok(known(there.clone(), "ops", "ops/ann"))), "buffered");
        assert_eq!(effect(bench.ok(known(there.clone(), "ops", "ops/bob"))), "same_source");
        assert_eq!(effect(bench.ok(known(with_token(token.reveal()), "ops", "bob"))), "same_source");
        assert_eq!(effect(bench.ok(known(there, "dev", "ops/ann"))), "buffered");

        let fence = bench.active();
        let counted = Match::named(signal_name("go"));
        let condition = Condition::Count { n: 2, distinct: Distinct::Sources, of: vec![counted] };
        bench.ok(Suspend::new(fence, condition));
        let go = signal(fence.execution, "go");
        assert_eq!(effect(bench.ok(known(go.clone(), "ops", "ops/ann"))), "counted");
        assert_eq!(effect(bench.ok(known(go.clone(), "ops", "ops/bob"))), "counted");
        assert_eq!(effect(bench.ok(known(go, "dev", "dev"))), "satisfied");
    }

    #[test]
    fn who_is_known_approves_under_its_own_name_and_never_its_own_request() {
        let mut bench = Bench::new();
        for (requester, principal, source, then) in [
            ("ops", "ops", "ops/x", "own_request"),
            ("ops/ada", "ops", "ops/x", "own_request"),
            ("ops/ada", "op", "op/x", "not_an_approver"),
            ("eve", "eve", "ops", "not_an_approver"),
            ("eve", "dev", "ops", "not_an_approver"),
            ("eve", "ops", "eve", "buffered"),
        ] {
            let (fence, _) = waitpoint(&mut bench, |it| {
                it.approvers = vec!["ops".into(), "bob".into()];
                it.requester = Some(requester.into());
            });
            let sent = known(at(fence, 1, ""), principal, source);
            assert_eq!(effect(bench.ok(sent)), then, "{requester} {principal} {source}");
        }
    }

    #[test]
    fn where_sources_must_be_known_a_token_alone_is_not_enough() {
        let mut bench = Bench::new();
        // Who needs no token is inside already.
        let (fence, _) = waitpoint(&mut bench, |it| it.known_sources = true);
        assert_eq!(effect(bench.ok(at(fence, 1, "ann"))), "buffered");
        let (fence, token) = waitpoint(&mut bench, |it| it.known_sources = true);
        bench.ok(Suspend::new(fence, named("board")));
        let alone = SendSignal { source: Some("ann".into()), ..with_token(token.reveal()) };
        assert_eq!(effect(bench.ok(alone.clone())), "no_source");
        assert_eq!(effect(bench.ok(known(alone, "ann", "ann"))), "satisfied");
    }

    #[test]
    fn signals_of_one_who_is_known_that_came_before_their_waitpoint_count_once() {
        let mut bench = Bench::new();
        let fence = bench.active();
        for source in ["ops/ann", "ops/bob"] {
            bench.ok(known(signal(fence.execution, "board"), "ops", source));
        }
        let mut open = open_waitpoint(fence, "board");
        open.waitpoint.distinct_sources = true;
        bench.ok(open);
        assert_eq!(bench.get(fence.execution).mailbox().unwrap().signals.len(), 1);
    }

    #[test]
    fn signals_by_name_that_came_before_their_waitpoint_go_through_it() {
        let mut bench = Bench::new();
        let fence = bench.active();
        for source in ["eve", "ann", "ann"] {
            bench.ok(SendSignal { source: Some(source.into()), ..signal(fence.execution, "board") });
        }
        bench.ok(signal(fence.execution, "other"));
        let mut open = open_waitpoint(fence, "board");
        open.waitpoint.approvers = vec!["ann".into(), "bob".into()];
        open.waitpoint.distinct_sources = true;
        bench.ok(open);
        let kept = bench.get(fence.execution).mailbox().unwrap().signals.clone();
        let kept: Vec<_> = kept.iter().map(|it| (it.number, it.waitpoint)).collect();
        assert_eq!(kept, [(2, Some(1)), (4, None)]);
    }

    #[test]
    fn a_good_token_opens_its_waitpoint_until_it_expires() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |it| it.expires_in_ms = Some(5_000));
        bench.ok(Suspend::new(fence, named("board")));
        bench.jump(4_999);
        assert_eq!(effect(bench.ok(with_token(token.reveal()))), "satisfied");
        assert_eq!(effect(bench.ok(with_token(token.reveal()))), "waitpoint_closed", "it was used");
        bench.jump(1);
        assert_eq!(bench.refused(with_token(token.reveal())), Rejection::TokenRefused);
    }

    #[test]
    fn every_wrong_token_gets_one_answer_and_leaves_nothing_behind() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |it| it.expires_in_ms = Some(60_000));
        let (foreign, other) = waitpoint(&mut bench, |_| {});
        let good = token.reveal();
        let (head, mac) = good.rsplit_once('.').unwrap();
        let flipped = if mac.starts_with('0') { "1" } else { "0" };
        let unknown = bench.next_id();
        let wrong = [
            format!("{head}.{flipped}{}", &mac[1..]),
            good.replacen("v1.1.", "v1.2.", 1),
            good.replacen(&fence.execution.to_string(), &foreign.execution.to_string(), 1),
            good.replacen(&fence.execution.to_string(), &unknown.to_string(), 1),
            other.reveal().replacen(&foreign.execution.to_string(), &fence.execution.to_string(), 1),
            good.replacen("-1.", "-2.", 1),
        ];
        let before = bench.store.clone();
        for text in wrong {
            assert_eq!(bench.refused(with_token(&text)), Rejection::TokenRefused, "{text}");
        }
        assert_eq!(bench.store, before);
        bench.jump(60_000);
        assert_eq!(bench.refused(with_token(good)), Rejection::TokenRefused, "expired");
        assert_eq!(effect(bench.ok(with_token(other.reveal()))), "buffered");
    }

    #[test]
    fn tokens_of_an_older_key_are_good_for_the_grace() {
        let mut bench = Bench::new();
        let (fence, old) = waitpoint(&mut bench, |_| {});
        bench.ok(rotate_key(2, 10_000));
        let Reply::WaitpointOpened { token: Some(new), .. } = bench.ok(issue_token(fence.execution, 1))
        else {
            panic!()
        };
        assert_ne!(old.reveal(), new.reveal());
        bench.jump(9_999);
        assert_eq!(effect(bench.ok(with_token(old.reveal()))), "buffered");
        bench.jump(1);
        assert_eq!(bench.refused(with_token(old.reveal())), Rejection::TokenRefused);
        assert_eq!(effect(bench.ok(with_token(new.reveal()))), "buffered");
    }

    #[test]
    fn a_token_says_nothing_in_events_or_replies_that_are_printed() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |_| {});
        let command = with_token(token.reveal());
        let printed = format!("{command:?} {:?}", bench.run(command.clone()));
        let events = serde_json::to_string(&bench.store.events).unwrap();
        let record = serde_json::to_string(&bench.get(fence.execution).live).unwrap();
        let mac = token.reveal().rsplit_once('.').unwrap().1;
        for text in [&printed, &events, &record] {
            assert!(!text.contains(mac) && !text.contains("0101010101"), "{text}");
        }
        assert!(events.contains(&token.fingerprint()));
    }

    #[test]
    fn the_holder_of_one_token_leaves_the_keys_and_the_room_of_others_alone() {
        let limits = Limits { signals_max: 4, token_signals_max: 2, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        let (fence, token) = waitpoint(&mut bench, |_| {});
        bench.ok(open_waitpoint(fence, "other"));
        let keyed = |signal: SendSignal| SendSignal { key: Some("k".into()), ..signal };
        assert_eq!(effect(bench.ok(keyed(with_token(token.reveal())))), "buffered");
        assert_eq!(effect(bench.ok(keyed(with_token(token.reveal())))), "duplicate");
        assert_eq!(effect(bench.ok(keyed(at(fence, 1, "ann")))), "duplicate", "the same waitpoint");
        assert_eq!(effect(bench.ok(keyed(at(fence, 2, "ann")))), "buffered", "another waitpoint");
        assert_eq!(bench.refused(keyed(at(fence, 3, "ann"))).code(), "not_found");
        assert_eq!(effect(bench.ok(with_token(token.reveal()))), "buffered");
        let refused = bench.refused(with_token(token.reveal()));
        assert!(matches!(refused, Rejection::TooManyTokenSignals { max: 2, .. }), "{refused:?}");
        assert_eq!(effect(bench.ok(keyed(signal(fence.execution, "go")))), "buffered", "no waitpoint");
        assert_eq!(bench.refused(signal(fence.execution, "go")).code(), "too_many_signals");
    }

    #[test]
    fn what_let_a_signal_in_is_written_down() {
        let mut bench = Bench::new();
        let (fence, token) = waitpoint(&mut bench, |_| {});
        let by_name = signal(fence.execution, "go");
        for (sent, told) in [
            (known(with_token(token.reveal()), "ops", "x"), (Some(Via::Token), Some("ops"))),
            (with_token(token.reveal()), (Some(Via::Token), None)),
            (known(by_name.clone(), "ops", "x"), (Some(Via::Access), Some("ops"))),
            (by_name, (None, None)),
        ] {
            bench.ok(sent);
            let event = bench.store.events.last().unwrap();
            let Fact::SignalReceived { via, principal, .. } = &event.fact else { panic!("{event:?}") };
            assert_eq!((*via, principal.as_deref()), told);
        }
    }

    #[test]
    fn there_is_a_limit_to_what_one_execution_keeps() {
        let mut bench =
            Bench::of(crate::id::PartitionId(0), 1, Limits { signals_max: 2, ..Limits::default() });
        let id = bench.create();
        bench.ok(signal(id, "a"));
        bench.ok(signal(id, "b"));
        assert_eq!(bench.refused(signal(id, "c")).code(), "too_many_signals");
    }

    #[test]
    fn what_is_too_large_or_nameless_is_refused() {
        let limits = Limits::default();
        let id = ExecutionId::from_parts(1, crate::id::Route(0), 1);
        let large = SendSignal { payload: Payload::json(vec![b'x'; 65_537]), ..signal(id, "go") };
        let problem = |signal: SendSignal| signal.validate(&limits).unwrap_err().to_string();
        assert_eq!(problem(large), "payload has 65537 bytes; allowed are at most 65536");
        assert!(problem(SendSignal::new(To::Execution(id))).starts_with("name is missing"));
        assert!(problem(SendSignal { key: Some("".into()), ..signal(id, "go") }).contains("is empty"));
        assert!(problem(SendSignal { source: Some("".into()), ..signal(id, "go") }).contains("empty name"));
        assert!(problem(SendSignal { source: Some("a\0".into()), ..signal(id, "go") }).contains("U+0000"));
    }

    #[test]
    fn a_waitpoint_under_a_step_is_opened_once() {
        let mut bench = Bench::new();
        bench.ok(rotate_key(1, 0));
        let fence = bench.active();
        let open = OpenWaitpoint { step: Some(step_place("ask", 1)), ..open_waitpoint(fence, "board") };
        let first = bench.ok(open.clone());
        assert_eq!(bench.ok(open), first);
        assert_eq!((bench.store.waitpoints.len(), bench.store.steps.len()), (1, 1));
        bench.ok(open_waitpoint(fence, "board"));
        assert_eq!(bench.store.waitpoints.len(), 2, "without a step each call opens one");
    }
}
