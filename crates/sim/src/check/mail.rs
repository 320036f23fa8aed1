//! Mailboxes, steps and streams: what must hold of them, and which answers about them are true.

use std::collections::BTreeMap;

use ff_core::change::Changes;
use ff_core::commands::To;
use ff_core::execution::{Execution, How, State};
use ff_core::stream::{Frame, Trim};
use ff_core::suspension::token::Claims;
use ff_core::suspension::{Token, WaitpointEntry, WaitpointId};
use ff_core::workspace::waitpoint_entries;
use ff_core::{Command, ExecutionId, Rejection, Reply};

use super::Check;
use super::history::{History, Seq};
use super::mirror::Mirror;

impl Mirror {
    pub(super) fn apply_mail(&mut self, changes: &Changes) -> Check {
        for id in &changes.waitpoints_removed {
            ensure!(self.waitpoints.remove(id).is_some(), "waitpoint {id} closes but was not open");
        }
        for entry in &changes.waitpoints_added {
            let before = self.waitpoints.insert(entry.id, entry.clone());
            ensure!(before.is_none(), "waitpoint {} opens but was open", entry.id);
        }
        for signal in &changes.signals {
            let new = self.signals.insert((signal.execution, signal.number));
            ensure!(new, "signal {} of {} is kept twice", signal.number, signal.execution);
        }
        for step in &changes.steps {
            self.steps.insert((step.execution, step.key.clone()));
        }
        for (id, stream) in &changes.streams {
            super::mirror::put(&mut self.streams, id, stream);
        }
        for trim in &changes.frames_trimmed {
            self.trim(trim);
        }
        for frame in &changes.frames {
            let key = (frame.execution, frame.attempt, frame.number);
            let before = self.frames.insert(key, frame.clone());
            ensure!(before.is_none(), "frame {key:?} is appended twice");
        }
        for (id, key) in &changes.signing_keys {
            super::mirror::put(&mut self.signing_keys, id, key);
        }
        Ok(())
    }

    fn trim(&mut self, trim: &Trim) {
        let id = trim.execution();
        let own = self.frames.range((id, 0, 0)..=(id, u32::MAX, u64::MAX));
        let gone: Vec<_> = own.filter(|(_, frame)| trim.takes(frame)).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| drop(self.frames.remove(key)));
    }

    /// Every trace of an execution goes with it.
    pub(super) fn purge_mail(&mut self, id: ExecutionId) {
        self.streams.remove(&id);
        self.signals.retain(|(execution, _)| *execution != id);
        self.steps.retain(|(execution, _)| *execution != id);
        let frames: Vec<_> =
            self.frames.range((id, 0, 0)..=(id, u32::MAX, u64::MAX)).map(|(key, _)| *key).collect();
        frames.iter().for_each(|key| drop(self.frames.remove(key)));
    }
}

/// The record beside its signals, steps and stream.
pub fn check_mailbox(mirror: &Mirror, it: &Execution) -> Check {
    let id = it.id;
    let kept: Vec<u32> = mirror.signals.range((id, 0)..=(id, u32::MAX)).map(|(_, number)| *number).collect();
    let received = it.mailbox().map_or(0, |mailbox| mailbox.received);
    ensure!(kept.iter().copied().eq(1..=received), "{id} has received {received} signals and keeps {kept:?}");
    let steps = mirror.steps.iter().any(|(execution, _)| *execution == id);
    ensure!(it.live.stepped == steps, "{id} says of its steps {}", it.live.stepped);
    ensure!(it.live.streamed == mirror.streams.contains_key(&id), "{id} says of its stream otherwise");
    let Some(mailbox) = it.mailbox() else {
        ensure!(it.suspension().is_none(), "{id} is suspended without a mailbox");
        return Ok(());
    };
    if it.end().is_some() {
        let empty = mailbox.waitpoints.is_empty() && mailbox.signals.is_empty();
        ensure!(empty, "{id} has ended and still waits: {mailbox:?}");
    }
    if let State::Suspended(suspension) = &it.live.state {
        let met = suspension.condition.met_by(&mailbox.signals);
        ensure!(met.is_none(), "{id} is suspended although what it waits for is there: {it:?}");
        let timed = suspension.timeout_at.is_none() || it.live.timer.is_some();
        ensure!(timed, "{id} is suspended and its timeout has no timer");
    }
    Ok(())
}

/// What follows from the records.
pub fn check_mail_tables(mirror: &Mirror) -> Check {
    let all = mirror.executions.values().flat_map(|it| waitpoint_entries(it)).map(|entry| (entry.id, entry));
    let derived: BTreeMap<WaitpointId, WaitpointEntry> = all.collect();
    ensure!(mirror.waitpoints == derived, "the inbox has\n  {:?}\n  and not {derived:?}", mirror.waitpoints);
    let lives = |id: &ExecutionId| mirror.executions.contains_key(id);
    ensure!(mirror.signals.iter().all(|(id, _)| lives(id)), "signals belong to nobody");
    ensure!(mirror.steps.iter().all(|(id, _)| lives(id)), "steps belong to nobody");
    for ((id, attempt, number), Frame { .. }) in &mirror.frames {
        let Some(stream) = mirror.streams.get(id) else {
            return Err(format!("frame {number} of {id} has no stream"));
        };
        let fits = *attempt < stream.attempt
            || (*attempt == stream.attempt && (stream.first..stream.next).contains(number));
        ensure!(fits, "frame {attempt}:{number} of {id} is beyond {stream:?}");
    }
    for it in mirror.executions.values().filter(|it| it.end().is_none() && it.live.series.number == 1) {
        let Some(parent) = it.spec.parent else { continue };
        let mailbox = mirror.executions.get(&parent).and_then(|parent| parent.mailbox());
        let known = mailbox.is_some_and(|mailbox| mailbox.children.contains(&it.id));
        ensure!(known, "{} runs and its parent {parent} knows nothing of it", it.id);
    }
    Ok(())
}

/// Whether an answer was true; `None` if it is about something else.
pub fn fits(
    history: &History,
    mirrors: &[Mirror],
    since: Seq,
    command: &Command,
    reply: &Reply,
) -> Option<bool> {
    let stood = |fence| history.lease(fence).is_some_and(|lease| lease.stood_since(since));
    Some(match (command, reply) {
        (Command::Suspend(it), Reply::LeaseEnded(how @ (How::Suspended | How::Cancelled))) => {
            super::replies::ended_so(history, it.fence, *how)
        }
        (Command::OpenWaitpoint(it), Reply::WaitpointOpened { .. }) => stood(it.fence),
        (Command::RecordSteps(it), Reply::Noted { .. }) => stood(it.fence),
        (Command::Append(it), Reply::Appended { next, .. }) => {
            let last = it.first + it.frames.len() as u64;
            stood(it.fence) && *next >= last
        }
        (Command::StartChild(it), Reply::Created { execution, existing }) => {
            let made = history.lives.get(&it.create.id).is_some_and(|life| match existing {
                true => !life.created.is_empty(),
                false => life.created.iter().any(|at| *at > since),
            });
            *execution == it.create.id && made && stood(it.fence)
        }
        (Command::SendSignal(it), Reply::Signalled { execution, number, .. }) => {
            let partition = execution.route().partition(mirrors.len() as u16);
            if let To::Token(token) = &it.to
                && verified(&mirrors[partition.index()], token).is_some_and(|it| !it.good)
            {
                return Some(false);
            }
            // What was acknowledged is kept for as long as its execution.
            let kept = number.is_none_or(|number| {
                mirrors.iter().any(|mirror| mirror.signals.contains(&(*execution, number)))
            });
            kept || history.was(*execution, since, |was| was.is_none())
        }
        (Command::RotateKey(_), Reply::Key { key, .. }) => mirrors.iter().all(|mirror| {
            // Only one that a newer key has retired goes.
            match mirror.signing_keys.get(&key.id) {
                Some(copy) => copy.revision >= key.revision,
                None => mirror.signing_keys.keys().any(|id| *id > key.id),
            }
        }),
        _ => return None,
    })
}

struct Verified {
    good: bool,
    /// Neither its waitpoint nor its key comes to an end.
    lasts: bool,
}

/// Whether a token speaks for a waitpoint that is known; `None` if that or its key is not.
fn verified(mirror: &Mirror, token: &Token) -> Option<Verified> {
    let Token { key, waitpoint, .. } = token;
    let execution = mirror.executions.get(&waitpoint.execution)?;
    let mailbox = execution.mailbox()?;
    let open = mailbox.waitpoint(waitpoint.number).map(|it| (it.expires_at, it.digest));
    let closed = || mailbox.closed.iter().find(|it| it.number == waitpoint.number);
    let (expires_at, digest) = open.or_else(|| closed().map(|it| (it.expires_at, it.digest)))?;
    let key = mirror.signing_keys.get(key)?;
    let claims = Claims { namespace: &execution.spec.namespace, waitpoint: *waitpoint, expires_at, digest };
    let lasts = expires_at.is_none() && key.retires_at.is_none();
    Some(Verified { good: claims.verify(key, token), lasts })
}

/// Whether a rejection that only these commands have was true; `None` if it is another.
pub fn was_true(
    history: &History,
    mirror: &Mirror,
    since: Seq,
    command: &Command,
    rejection: &Rejection,
) -> Option<bool> {
    Some(match (command, rejection) {
        (Command::Resume(_), Rejection::NotSuspended { execution, state, reason }) => {
            history.was(*execution, since, |was| {
                was.is_some_and(|was| was.state == *state && was.reason == *reason)
            })
        }
        // A waitpoint or a child may be gone before the suspension that asks for it arrives.
        (Command::Suspend(it), Rejection::Invalid(_)) => {
            history.lease(it.fence).is_some_and(|lease| lease.stood_since(since))
        }
        (Command::SendSignal(it), Rejection::NotFound { what, .. }) if what == "waitpoint" => {
            history.was(it.to.execution(), since, |was| was.is_some())
        }
        // Through a waitpoint, the name of another one is refused while that is open.
        (Command::SendSignal(it), Rejection::Invalid(invalid)) if invalid.field == "name" => {
            let through = !matches!(it.to, To::Execution(_)) && it.name.is_some();
            through && history.was(it.to.execution(), since, |was| was.is_some())
        }
        (Command::SendSignal(it), Rejection::TokenRefused) => match &it.to {
            // What is good and cannot end was good when it was made.
            To::Token(token) => !verified(mirror, token).is_some_and(|it| it.good && it.lasts),
            _ => false,
        },
        // Its frames were appended on top of some that were not committed in the end.
        (Command::Append(it), Rejection::FrameGap { first, expected }) => {
            it.first == *first && expected < first
        }
        (Command::StartChild(it), Rejection::LaneDraining { .. }) => {
            history.was(it.fence.execution, since, |was| was.is_some())
        }
        _ => return None,
    })
}
