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
use crate::suspension::{Arrived, Digest, Effect, Ignored, ResumedBy, Signal, Token, WaitpointId};
use crate::workspace::{Stop, Workspace};

/// Keys of signals are kept beside those of submissions, under a prefix that none of those can have.
const KEY_PREFIX: &str = "\u{1}signal/";

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
}

/// Something has happened outside that an execution may wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct SendSignal {
    pub to: To,
    /// Its name; that of the waitpoint if it is left out.
    pub name: Option<SignalName>,
    pub payload: Payload,
    /// Who sends it.
    pub source: Option<Box<str>>,
    pub correlation: Option<Box<str>>,
    /// The same key again within a day is a duplicate.
    pub key: Option<Box<str>>,
    /// SHA-256 of the action that the sender has seen.
    pub digest: Option<Digest>,
}

impl SendSignal {
    pub fn new(to: To) -> SendSignal {
        let payload = Payload::json("null");
        SendSignal { to, name: None, payload, source: None, correlation: None, key: None, digest: None }
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
        let dedup_key = self.dedup_key(&current);
        if let Some(key) = &dedup_key
            && ws.dedup(key)?.is_some_and(|dedup| dedup.expires_at > now)
        {
            return answer(Effect::Duplicate);
        }
        let mut changed = (*current).clone();
        let mailbox = changed.mailbox_mut();
        let waitpoint = match (&self.to, &self.name) {
            (To::Execution(_), Some(name)) => mailbox.waitpoint_named(name),
            (To::Execution(_), None) => None,
            (To::Waitpoint(WaitpointId { number, .. }), _)
            | (To::Token(Token { waitpoint: WaitpointId { number, .. }, .. }), _) => {
                match mailbox.waitpoint(*number) {
                    Some(open) => Some(open),
                    None if *number <= mailbox.opened => return answer(Effect::Ignored(Ignored::Closed)),
                    None => {
                        let id = WaitpointId { execution, number: *number }.to_string();
                        return Err(Rejection::NotFound { what: "waitpoint", id }.into());
                    }
                }
            }
        };
        if let Some(waitpoint) = waitpoint {
            let source = self.source.as_deref();
            let used = || mailbox.signals.iter().filter(|it| it.waitpoint == Some(waitpoint.number));
            let again = waitpoint.distinct_sources && used().any(|it| it.source.as_deref() == source);
            let other = self.digest.is_some() && self.digest != waitpoint.digest;
            let why = refusal(waitpoint, source)
                .or(again.then_some(Ignored::SameSource))
                .or(other.then_some(Ignored::OtherAction));
            if let Some(why) = why {
                return answer(Effect::Ignored(why));
            }
        }
        let name = self.name.clone().or_else(|| waitpoint.and_then(|it| it.name.clone()));
        let waitpoint = waitpoint.map(|it| it.number);
        let max = ws.limits.signals_max;
        if mailbox.received as usize >= max {
            return Err(Rejection::TooManySignals { execution, max }.into());
        }
        mailbox.received += 1;
        let number = mailbox.received;
        let (source, correlation) = (self.source.clone(), self.correlation.clone());
        let arrived = Arrived { number, name: name.clone(), waitpoint, source: source.clone(), child: None };
        let wanted = changed.suspension().is_some_and(|it| it.condition.wants(&arrived));
        changed.mailbox_mut().signals.push(arrived);
        let met = met(&changed);
        let effect = match (&met, wanted) {
            (Some(_), _) => Effect::Satisfied,
            (None, true) => Effect::Counted,
            (None, false) => Effect::Buffered,
        };
        let payload = self.payload.clone();
        let event =
            Fact::SignalReceived { number, name: name.clone(), waitpoint, source: source.clone(), effect };
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

    /// The execution it is for. A token that is not good for it gets one answer, whatever is wrong with it.
    fn recipient(&self, ws: &Workspace, now: Ms) -> Result<Arc<Execution>, Stop> {
        let To::Token(token) = &self.to else { return Ok(ws.require(self.to.execution())?.clone()) };
        let Some(execution) = ws.execution(token.waitpoint.execution)? else {
            return Err(Rejection::TokenRefused.into());
        };
        if self.is_good(ws, execution, token, now) {
            Ok(execution.clone())
        } else {
            Err(Rejection::TokenRefused.into())
        }
    }

    fn is_good(&self, ws: &Workspace, execution: &Execution, token: &Token, now: Ms) -> bool {
        let number = token.waitpoint.number;
        let open = execution.mailbox().and_then(|mailbox| {
            let open = mailbox.waitpoint(number).map(|it| (it.expires_at, it.digest));
            let closed = || mailbox.closed.iter().find(|it| it.number == number);
            open.or_else(|| closed().map(|it| (it.expires_at, it.digest)))
        });
        let key = ws.signing_key(token.key).filter(|key| key.retires_at.is_none_or(|at| now < at));
        let (Some((expires_at, digest)), Some(key)) = (open, key) else { return false };
        let verified = claims(execution, number, expires_at, digest).verify(key, token);
        verified && expires_at.is_none_or(|at| now < at)
    }

    fn dedup_key(&self, execution: &Execution) -> Option<DedupKey> {
        let key = self.key.as_deref()?;
        let key = format!("{KEY_PREFIX}{}/{key}", execution.id).into_boxed_str();
        Some(DedupKey { namespace: execution.spec.namespace.clone(), key })
    }
}
