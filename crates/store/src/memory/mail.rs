//! What arrives for executions and what they leave behind: waitpoints, signals, steps, streams, and the keys that
//! tokens are signed with.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::change::Changes;
use ff_core::query::{FramePageAsk, Order};
use ff_core::step::{Step, StepKey};
use ff_core::stream::{Frame, Stream, Trim};
use ff_core::suspension::{Signal, SigningKey, WaitpointEntry, WaitpointId};

use super::partition::{Partition, put};
use crate::Trace;

/// Records of executions, by execution and then by a key of their own.
type ByExecution<K, V> = BTreeMap<ExecutionId, BTreeMap<K, V>>;

/// The mail of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Mail {
    pub(super) keys: BTreeMap<u32, Arc<SigningKey>>,
    pub(super) waitpoints: BTreeMap<WaitpointId, Arc<WaitpointEntry>>,
    signals: ByExecution<u32, Signal>,
    steps: ByExecution<StepKey, Step>,
    pub(super) streams: BTreeMap<ExecutionId, Arc<Stream>>,
    /// By attempt and number.
    frames: ByExecution<(u32, u64), Frame>,
}

impl Mail {
    /// Takes in its part of a set of changes, after the executions.
    pub(super) fn apply(&mut self, changes: &mut Changes) {
        for (id, key) in changes.signing_keys.drain(..) {
            put(&mut self.keys, id, key);
        }
        for id in changes.waitpoints_removed.drain(..) {
            self.waitpoints.remove(&id);
        }
        for entry in changes.waitpoints_added.drain(..) {
            self.waitpoints.insert(entry.id, Arc::new(entry));
        }
        for signal in changes.signals.drain(..) {
            self.signals.entry(signal.execution).or_default().insert(signal.number, signal);
        }
        for step in changes.steps.drain(..) {
            self.steps.entry(step.execution).or_default().insert(step.key.clone(), step);
        }
        for (id, stream) in changes.streams.drain(..) {
            put(&mut self.streams, id, stream);
        }
        for trim in changes.frames_trimmed.drain(..) {
            self.trim(&trim);
        }
        for frame in changes.frames.drain(..) {
            self.frames.entry(frame.execution).or_default().insert((frame.attempt, frame.number), frame);
        }
    }

    /// Removes what belongs to an execution. Its waitpoints go by the list of those that close.
    pub(super) fn purge(&mut self, id: ExecutionId) {
        self.signals.remove(&id);
        self.steps.remove(&id);
        self.streams.remove(&id);
        self.frames.remove(&id);
    }

    fn trim(&mut self, trim: &Trim) {
        let id = trim.execution();
        if let Some(frames) = self.frames.get_mut(&id) {
            frames.retain(|_, frame| !trim.takes(frame));
            if frames.is_empty() {
                self.frames.remove(&id);
            }
        }
    }

    pub(super) fn signal(&self, execution: ExecutionId, number: u32) -> Option<&Signal> {
        self.signals.get(&execution)?.get(&number)
    }

    /// Of whom there is something, by what it is.
    pub(super) fn owners(&self) -> impl Iterator<Item = (Trace, ExecutionId)> {
        let of = |what: Trace, ids: Vec<ExecutionId>| ids.into_iter().map(move |id| (what, id));
        of(Trace::Frames, self.frames.keys().copied().collect())
            .chain(of(Trace::Signals, self.signals.keys().copied().collect()))
            .chain(of(Trace::Steps, self.steps.keys().copied().collect()))
            .chain(of(Trace::Stream, self.streams.keys().copied().collect()))
    }

    /// The steps of one execution in the order of their numbers.
    pub(super) fn steps(&self, execution: ExecutionId) -> Vec<Step> {
        let known = self.steps.get(&execution).into_iter();
        let mut steps: Vec<Step> = known.flat_map(BTreeMap::values).cloned().collect();
        steps.sort_by_key(|step| step.number);
        steps
    }

    pub(super) fn frames(&self, ask: &FramePageAsk) -> Vec<Frame> {
        let FramePageAsk { execution, attempt, order, after, limit, bytes } = *ask;
        let Some(frames) = self.frames.get(&execution) else { return Vec::new() };
        let rows: Box<dyn Iterator<Item = &Frame>> = match (order, after) {
            (Order::NewestFirst, 0) => {
                Box::new(frames.range((attempt, 0)..=(attempt, u64::MAX)).rev().map(|(_, it)| it))
            }
            (Order::NewestFirst, before) => {
                Box::new(frames.range((attempt, 0)..(attempt, before)).rev().map(|(_, it)| it))
            }
            (Order::OldestFirst, after) => {
                let rest = frames.range((Excluded((attempt, after)), Unbounded));
                Box::new(rest.take_while(move |((it, _), _)| *it == attempt).map(|(_, it)| it))
            }
        };
        let mut total = 0;
        let page = rows.take(limit).enumerate().take_while(|(at, frame)| {
            let fits = *at == 0 || total < bytes;
            total += frame.bytes.len();
            fits
        });
        page.map(|(_, frame)| frame.clone()).collect()
    }
}

impl Partition {
    pub fn signing_keys(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.mail.keys.values()
    }

    /// Open waitpoints in the order of their ids.
    pub fn waitpoints(&self) -> impl Iterator<Item = &Arc<WaitpointEntry>> {
        self.mail.waitpoints.values()
    }

    /// Signals by execution and number.
    pub fn signals(&self) -> impl Iterator<Item = &Signal> {
        self.mail.signals.values().flat_map(BTreeMap::values)
    }

    /// Steps by execution and key.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.mail.steps.values().flat_map(BTreeMap::values)
    }

    pub fn streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.mail.streams.values()
    }

    /// Frames by execution, attempt and number.
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.mail.frames.values().flat_map(BTreeMap::values)
    }
}
