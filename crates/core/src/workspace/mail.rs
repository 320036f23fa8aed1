//! Signals, steps, streams and signing keys: what is appended, and what follows from it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::table::Known;
use super::{Lists, Stop, Workspace};
use crate::agenda::{Agenda, AgendaKey, Subject};
use crate::change::Changes;
use crate::execution::{Execution, State};
use crate::id::ExecutionId;
use crate::key::{Ask, Key};
use crate::step::Step;
use crate::stream::{Frame, Stream, Trim};
use crate::suspension::{Signal, SigningKey, WaitpointEntry, WaitpointId};

/// How much was listed when an execution was removed; what was listed before goes with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub payloads: usize,
    pub attempts: usize,
    pub traces: Traces,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traces {
    signals: usize,
    steps: usize,
    frames: usize,
    trims: usize,
}

impl Workspace {
    pub fn put_signal(&mut self, signal: Signal) {
        self.lists.signals.push(signal);
    }

    pub fn put_step(&mut self, step: Step) {
        self.lists.steps.push(step);
    }

    pub fn put_frame(&mut self, frame: Frame) {
        self.lists.frames.push(frame);
    }

    pub fn trim_frames(&mut self, trim: Trim) {
        self.lists.trims.push(trim);
    }

    /// The stream of an execution that has appended anything.
    pub fn stream(&self, id: ExecutionId) -> Result<Option<&Arc<Stream>>, Stop> {
        match self.streams.get(&id) {
            Known::Present(stream) => Ok(Some(stream)),
            Known::Absent => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Stream(id))])),
        }
    }

    /// What is in the agenda for the stream of an execution is known only with the stream.
    pub fn know_stream(&self, id: ExecutionId) -> Result<(), Stop> {
        match self.execution(id)? {
            Some(execution) if execution.live.streamed => self.stream(id).map(drop),
            _ => Ok(()),
        }
    }

    pub fn put_stream(&mut self, stream: Stream) {
        let after = Arc::new(stream);
        let before = self.streams.put(after.execution, Some(after.clone()), self.batch);
        derive_stream(&mut self.agenda, before.as_deref(), Some(&after));
    }

    /// Its execution goes, and the store removes the stream with it.
    pub(super) fn purge_stream(&mut self, id: ExecutionId) {
        let before = self.streams.put(id, None, self.batch);
        derive_stream(&mut self.agenda, before.as_deref(), None);
    }

    /// Every key that tokens were signed with and may still be good.
    pub fn signing_keys(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.signing_keys.values()
    }

    pub fn signing_key(&self, id: u32) -> Option<&Arc<SigningKey>> {
        match self.signing_keys.get(&id) {
            Known::Present(key) => Some(key),
            _ => None,
        }
    }

    /// The key that new tokens are signed with.
    pub fn newest_key(&self) -> Option<&Arc<SigningKey>> {
        self.signing_keys().max_by_key(|key| key.id)
    }

    /// The keys that go when their grace is over. The newest is not among them: where it has retired, the copy of a newer
    /// one is on its way, and until that arrives this partition would know of no key at all.
    pub fn passing_keys(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        let newest = self.newest_key().map(|key| key.id);
        self.signing_keys().filter(move |key| Some(key.id) != newest)
    }

    pub fn put_signing_key(&mut self, key: SigningKey) {
        let newest = self.newest_key().filter(|newest| newest.id < key.id);
        let overtaken = newest.and_then(|newest| newest.retires_at);
        overtaken.into_iter().chain(key.retires_at).for_each(|at| self.sweep_by(at));
        self.signing_keys.put(key.id, Some(Arc::new(key)), self.batch);
    }

    pub fn drop_signing_key(&mut self, id: u32) {
        self.signing_keys.put(id, None, self.batch);
    }
}

impl Lists {
    pub(super) fn traces(&self) -> Traces {
        Traces {
            signals: self.signals.len(),
            steps: self.steps.len(),
            frames: self.frames.len(),
            trims: self.trims.len(),
        }
    }

    /// Drops traces of what was removed after, steps that were recorded again, and frames that went at once.
    pub(super) fn leave_out_traces(&mut self, purged: &FxHashMap<ExecutionId, Kept>) {
        if !purged.is_empty() {
            let stays = |id: ExecutionId, number: usize, cut: fn(&Traces) -> usize| {
                purged.get(&id).is_none_or(|kept| number >= cut(&kept.traces))
            };
            keep(&mut self.signals, |number, it| stays(it.execution, number, |cut| cut.signals));
            keep(&mut self.steps, |number, it| stays(it.execution, number, |cut| cut.steps));
            keep(&mut self.frames, |number, it| stays(it.execution, number, |cut| cut.frames));
            keep(&mut self.trims, |number, it| stays(it.execution(), number, |cut| cut.trims));
        }
        if self.steps.len() > 1 {
            let mut seen = FxHashSet::default();
            let mut newest: Vec<bool> =
                self.steps.iter().rev().map(|it| seen.insert((it.execution, it.key.clone()))).collect();
            newest.reverse();
            keep(&mut self.steps, |number, _| newest[number]);
        }
        if !self.trims.is_empty() {
            let trims = std::mem::take(&mut self.trims);
            self.frames.retain(|frame| !trims.iter().any(|trim| trim.takes(frame)));
            self.trims = trims;
        }
    }
}

fn keep<T>(list: &mut Vec<T>, stays: impl Fn(usize, &T) -> bool) {
    let mut numbers = 0..;
    list.retain(|it| stays(numbers.next().unwrap_or(0), it));
}

fn trim_key(stream: &Stream) -> Option<AgendaKey> {
    stream.trim_at.map(|due| AgendaKey { due, subject: Subject::Frames(stream.execution) })
}

/// The agenda entries that go and come when a stream goes from one record to another.
pub(super) fn stream_entries(
    before: Option<&Stream>,
    after: Option<&Stream>,
) -> (Option<AgendaKey>, Option<AgendaKey>) {
    let (old, new) = (before.and_then(trim_key), after.and_then(trim_key));
    if old == new { (None, None) } else { (old, new) }
}

pub(super) fn derive_stream(agenda: &mut Agenda, before: Option<&Stream>, after: Option<&Stream>) {
    let (old, new) = stream_entries(before, after);
    old.iter().for_each(|key| agenda.remove(key));
    new.into_iter().for_each(|key| agenda.add(key, None));
}

/// The open waitpoints of an execution, as they stand in the inbox.
pub fn waitpoint_entries(execution: &Execution) -> impl Iterator<Item = WaitpointEntry> + '_ {
    let suspension = match &execution.live.state {
        State::Suspended(suspension) => Some(suspension),
        _ => None,
    };
    let open = execution.mailbox().into_iter().flat_map(|mailbox| &mailbox.waitpoints);
    open.map(move |it| WaitpointEntry {
        id: WaitpointId { execution: execution.id, number: it.number },
        namespace: execution.spec.namespace.clone(),
        lane: execution.spec.lane.clone(),
        kind: execution.spec.kind.clone(),
        name: it.name.clone(),
        reason: suspension
            .filter(|suspension| suspension.condition.is_about(it.number, it.name.as_ref()))
            .map(|suspension| suspension.reason),
        opened_at: it.opened_at,
        expires_at: it.expires_at,
        digest: it.digest,
    })
}

/// Adds what an execution's change means for the inbox.
pub(super) fn net_waitpoints(changes: &mut Changes, before: Option<&Execution>, after: Option<&Execution>) {
    let open = |it: &Execution| it.mailbox().is_some_and(|mailbox| !mailbox.waitpoints.is_empty());
    if !before.is_some_and(open) && !after.is_some_and(open) {
        return;
    }
    let entries = |it: Option<&Execution>| -> Vec<WaitpointEntry> {
        it.into_iter().flat_map(waitpoint_entries).collect()
    };
    let (old, new) = (entries(before), entries(after));
    changes.waitpoints_removed.extend(old.iter().filter(|it| !new.contains(it)).map(|it| it.id));
    changes.waitpoints_added.extend(new.into_iter().filter(|it| !old.contains(it)));
}
