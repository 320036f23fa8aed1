//! The moves that signals, suspensions and their timers share: opening and closing waitpoints, taking a signal in,
//! going on.

use std::collections::BTreeSet;

use super::lifecycle::{finish_cancelled_as, finish_expired, finish_failed, make_ready};
use super::open_waitpoint::NewWaitpoint;
use crate::Ms;
use crate::attempt::{AttemptEnd, TaskError};
use crate::event::{By, Closing, Fact};
use crate::execution::{Cancellation, Execution, State};
use crate::payload::Payload;
use crate::rejection::Rejection;
use crate::state::{AttemptOutcome, Reason};
use crate::step::{Step, StepKind, StepPlace};
use crate::suspension::token::Claims;
use crate::suspension::{
    Arrived, Digest, Ignored, OnTimeout, ResumedBy, Resumption, Sender, Suspension, TokenText, Waitpoint,
    WaitpointId,
};
use crate::workspace::{Stop, Workspace};

/// What the token of a waitpoint is made of.
pub(super) fn claims(
    execution: &Execution,
    number: u32,
    expires_at: Option<Ms>,
    digest: Option<Digest>,
) -> Claims<'_> {
    let waitpoint = WaitpointId { execution: execution.id, number };
    Claims { namespace: &execution.spec.namespace, waitpoint, expires_at, digest }
}

/// The token for an open waitpoint, under the newest key.
pub(super) fn token(ws: &Workspace, execution: &Execution, waitpoint: &Waitpoint) -> Option<TokenText> {
    let Waitpoint { number, expires_at, digest, .. } = *waitpoint;
    ws.newest_key().map(|key| claims(execution, number, expires_at, digest).sign(key))
}

/// Opens a waitpoint and binds signals of its name that were there before it; those it does not allow go.
pub(super) fn open(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    new: &NewWaitpoint,
    step: Option<&StepPlace>,
) -> Result<Waitpoint, Stop> {
    let max = ws.limits.waitpoints_max;
    let id = execution.id;
    let mailbox = execution.mailbox_mut();
    if mailbox.waitpoints.len() >= max {
        return Err(Rejection::TooManyWaitpoints { execution: id, max }.into());
    }
    mailbox.opened += 1;
    let waitpoint = Waitpoint {
        number: mailbox.opened,
        name: new.name.clone(),
        opened_at: now,
        expires_at: new.expires_in_ms.map(|ms| now.saturating_add(ms)),
        digest: new.digest,
        approvers: new.approvers.clone(),
        requester: new.requester.clone(),
        distinct_sources: new.distinct_sources,
        known_sources: new.known_sources,
        step: step.map(|step| step.key.clone()),
        token_signals: 0,
    };
    let mut early = std::mem::take(&mut mailbox.signals);
    early.retain_mut(|signal| {
        let named = signal.name.is_some() && signal.name == waitpoint.name;
        if !named || signal.waitpoint.is_some() || signal.child.is_some() {
            return true;
        }
        signal.waitpoint = Some(waitpoint.number);
        let sender = signal.sender();
        // What counts once is found among those that were kept before it.
        let again = mailbox.signals.iter().any(|it| it.sender().name() == sender.name());
        let stays = refusal(&waitpoint, sender).is_none() && !(waitpoint.distinct_sources && again);
        if stays {
            mailbox.signals.push(signal.clone());
        }
        stays
    });
    mailbox.signals = early;
    mailbox.waitpoints.push(waitpoint.clone());
    let token = token(ws, execution, &waitpoint).map(|token| token.fingerprint().into());
    let (name, expires_at) = (waitpoint.name.clone(), waitpoint.expires_at);
    ws.emit(execution, now, Fact::WaitpointOpened { waitpoint: waitpoint.number, name, expires_at, token });
    Ok(waitpoint)
}

/// Why a waitpoint takes nothing from this sender, if it does not.
pub(super) fn refusal(waitpoint: &Waitpoint, sender: Sender<'_>) -> Option<Ignored> {
    if sender.name().is_none() && waitpoint.asks_for_source() {
        return Some(Ignored::NoSource);
    }
    let listed = |name: &str| waitpoint.approvers.iter().any(|it| **it == *name);
    if !waitpoint.approvers.is_empty() && !sender.name().is_some_and(listed) {
        return Some(Ignored::NotAnApprover);
    }
    if waitpoint.requester.as_deref().is_some_and(|requester| sender.is(requester)) {
        return Some(Ignored::OwnRequest);
    }
    None
}

/// Closes waitpoints and says so.
pub(super) fn close(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    why: Closing,
    which: impl Fn(&Waitpoint) -> bool,
) {
    let Some(mailbox) = execution.live.mailbox.as_mut() else { return };
    let numbers: Vec<u32> = mailbox.waitpoints.iter().filter(|it| which(it)).map(|it| it.number).collect();
    for number in numbers {
        execution.mailbox_mut().close(number);
        ws.emit(execution, now, Fact::WaitpointClosed { waitpoint: number, why });
    }
}

/// Nothing that arrives can reach an execution that has ended.
pub(super) fn close_all(ws: &mut Workspace, execution: &mut Execution, now: Ms) {
    close(ws, execution, now, Closing::Ended, |_| true);
    if let Some(mailbox) = execution.live.mailbox.as_mut() {
        mailbox.signals.clear();
        mailbox.resumption = None;
    }
}

/// Parks an execution, or lets it go on at once if what it waits for is there.
pub(super) fn park(ws: &mut Workspace, execution: &mut Execution, now: Ms, suspension: Box<Suspension>) {
    let (reason, until) = (suspension.reason, suspension.timeout_at);
    execution.live.state = State::Suspended(suspension);
    ws.emit(execution, now, Fact::Suspended { reason, until });
    go_on_if_met(ws, execution, now);
}

/// Where among its signals that is what a suspended execution waits for, if all of it is there.
pub(super) fn met(execution: &Execution) -> Option<BTreeSet<usize>> {
    let State::Suspended(suspension) = &execution.live.state else { return None };
    let arrived = execution.mailbox().map_or(&[][..], |mailbox| &mailbox.signals);
    suspension.condition.met_by(arrived)
}

/// Whether what a suspended execution waits for is there; if so, it goes on.
pub(super) fn go_on_if_met(ws: &mut Workspace, execution: &mut Execution, now: Ms) -> bool {
    let Some(met) = met(execution) else { return false };
    go_on(ws, execution, now, ResumedBy::Signals, &met, None);
    true
}

/// Ends a suspension: the same attempt goes on with the signals that satisfied it.
pub(super) fn go_on(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    by: ResumedBy,
    met: &BTreeSet<usize>,
    operator: Option<By>,
) {
    let State::Suspended(suspension) = execution.live.state.clone() else { return };
    let mailbox = execution.mailbox_mut();
    let used: Vec<Arrived> = met.iter().map(|at| mailbox.signals[*at].clone()).collect();
    let mut places = 0..;
    mailbox.signals.retain(|_| !met.contains(&places.next().unwrap_or(0)));
    let signals: Vec<u32> = used.iter().filter(|it| it.child.is_none()).map(|it| it.number).collect();
    let children: Vec<_> = used.iter().filter_map(|it| it.child).collect();
    let resumption = Resumption { by, at: now, signals: signals.clone(), children: children.clone() };
    if let Some(step) = &suspension.step {
        let result = serde_json::to_vec(&resumption).unwrap_or_default();
        record(ws, execution, now, step, StepKind::Wait, suspension.since, Payload::json(result));
    }
    execution.mailbox_mut().resumption = Some(resumption);
    let condition = &suspension.condition;
    close(ws, execution, now, Closing::Resumed, |it| condition.is_about(it.number, it.name.as_ref()));
    let number = ws.emit(execution, now, Fact::Resumed { by, signals, children, operator });
    make_ready(ws, execution, now, now, number);
}

/// Records a step in the same commit as what it stands for.
pub(super) fn record(
    ws: &mut Workspace,
    execution: &mut Execution,
    now: Ms,
    step: &StepPlace,
    kind: StepKind,
    started_at: Ms,
    result: Payload,
) {
    execution.live.stepped = true;
    let (key, number) = (step.key.clone(), step.number);
    let attempt = execution.attempt_number();
    ws.put_step(Step {
        execution: execution.id,
        key,
        kind,
        number,
        attempt,
        started_at,
        ended_at: now,
        result,
    });
}

/// A suspension has lasted too long, or can never be over any more.
pub(super) fn time_out(ws: &mut Workspace, execution: &mut Execution, now: Ms) {
    let State::Suspended(suspension) = &mut execution.live.state else { return };
    let reason = Reason::SuspensionTimedOut;
    match suspension.on_timeout {
        OnTimeout::Resume => go_on(ws, execution, now, ResumedBy::Timeout, &BTreeSet::new(), None),
        OnTimeout::Escalate => {
            suspension.timeout_at = None;
            suspension.reason = Reason::OperatorReview;
            ws.emit(execution, now, Fact::Escalated);
        }
        OnTimeout::Fail => {
            let waited = now - suspension.since;
            let message = format!("nothing ended the suspension within {waited} ms");
            let error = TaskError::new("suspension_timeout", message);
            end_attempt_as(execution, now, AttemptOutcome::TimedOut, Some(error.clone()));
            finish_failed(ws, execution, now, reason, Some(error));
        }
        OnTimeout::Cancel => {
            let by = Cancellation { actor: "system".into(), cause: "suspension timed out".into(), at: now };
            finish_cancelled_as(ws, execution, now, by, reason);
        }
        OnTimeout::Expire => {
            end_attempt_as(execution, now, AttemptOutcome::TimedOut, None);
            finish_expired(ws, execution, now, reason);
        }
    }
}

fn end_attempt_as(execution: &mut Execution, now: Ms, outcome: AttemptOutcome, error: Option<TaskError>) {
    if let Some(attempt) = execution.live.attempt.as_mut() {
        attempt.end = Some(AttemptEnd { at: now, outcome, error });
    }
}

/// Closes waitpoints that have expired. A suspension that nothing can end any more has timed out.
pub(super) fn expire_waitpoints(ws: &mut Workspace, execution: &mut Execution, now: Ms) {
    close(ws, execution, now, Closing::Expired, |it| it.expires_at.is_some_and(|at| at <= now));
    let State::Suspended(suspension) = &execution.live.state else { return };
    if execution.mailbox().is_some_and(|mailbox| !suspension.condition.can_be_met(mailbox)) {
        time_out(ws, execution, now);
    }
}
