//! Bugs of signals, steps, streams, frames and waitpoints, on both ways.

use std::sync::Arc;

use ff_core::change::Changes;
use ff_core::query::{FramePageAsk, Order, WaitpointPage, WaitpointPageAsk};
use ff_core::step::Step;
use ff_core::stream::{Frame, FrameMode, Trim};
use ff_core::suspension::WaitpointId;

use super::Bug;
use super::commits::purged;
use crate::memory::{MemoryState, Partition};

/// Changes what is written.
pub fn spoil(before: &Partition, bug: Bug, changes: &mut Changes) {
    match bug {
        Bug::SigningKeyNotRemoved => changes.signing_keys.retain(|(_, key)| key.is_some()),
        Bug::SigningKeyNotReplaced => {
            let known = |id: &u32| before.signing_keys().any(|key| key.id == *id);
            changes.signing_keys.retain(|(id, key)| key.is_none() || !known(id));
        }
        Bug::SignalsDropped => changes.signals.retain(|signal| signal.number % 3 != 0),
        Bug::SignalWithoutCorrelation => {
            changes.signals.iter_mut().for_each(|signal| signal.correlation = None);
        }
        Bug::StepNotReplaced => {
            let same = |a: &Step, b: &Step| a.execution == b.execution && a.key == b.key;
            changes.steps.retain(|step| !before.steps().any(|it| same(it, step)));
        }
        Bug::StreamNotRemoved => changes.streams.retain(|(_, stream)| stream.is_some()),
        Bug::StreamLosesItsSummary => {
            for (_, stream) in &mut changes.streams {
                stream.iter_mut().for_each(|stream| Arc::make_mut(stream).summary = None);
            }
        }
        Bug::PurgeLeavesSignals => {
            let gone = purged(changes);
            changes.signals.extend(before.signals().filter(|it| gone.contains(&it.execution)).cloned());
        }
        Bug::PurgeLeavesSteps => {
            let gone = purged(changes);
            changes.steps.extend(before.steps().filter(|it| gone.contains(&it.execution)).cloned());
        }
        Bug::PurgeLeavesStream => {
            let gone = purged(changes);
            let left = before.streams().filter(|it| gone.contains(&it.execution));
            changes.streams.splice(0..0, left.map(|it| (it.execution, Some(it.clone()))));
        }
        Bug::PurgeLeavesFrames => {
            let gone = purged(changes);
            changes.frames.extend(before.frames().filter(|it| gone.contains(&it.execution)).cloned());
        }
        Bug::PurgeAfterAdding => {
            let gone = purged(changes);
            changes.steps.retain(|step| !gone.contains(&step.execution));
        }
        Bug::FramesNotTrimmed => changes.frames_trimmed.clear(),
        Bug::FramesOfAllModesTrimmed => {
            let trims = std::mem::take(&mut changes.frames_trimmed).into_iter();
            changes.frames_trimmed = trims.flat_map(of_all_modes).collect();
        }
        Bug::FramesTrimmedAfterAdding => {
            let trims = &changes.frames_trimmed;
            changes.frames.retain(|frame| !trims.iter().any(|trim| trim.takes(frame)));
        }
        Bug::WaitpointNotRemoved => {
            let opened: Vec<WaitpointId> = changes.waitpoints_added.iter().map(|it| it.id).collect();
            changes.waitpoints_removed.retain(|id| opened.contains(id));
        }
        Bug::WaitpointKeepsItsReason => {
            for entry in &mut changes.waitpoints_added {
                if let Some(known) = before.waitpoints().find(|it| it.id == entry.id) {
                    entry.reason = known.reason;
                }
            }
        }
        _ => super::registry::spoil(before, bug, changes),
    }
}

fn of_all_modes(trim: Trim) -> Vec<Trim> {
    match trim {
        Trim::Older { execution, before, .. } => {
            FrameMode::ALL.iter().map(|mode| Trim::Older { execution, mode: *mode, before }).collect()
        }
        trim => vec![trim],
    }
}

/// Steps as they were before the newest commit, where they have been recorded again since.
pub fn doubles(before: &MemoryState, steps: &[Step]) -> Vec<Step> {
    let then = before.partitions().flat_map(|(_, it)| it.steps());
    let again =
        |old: &&Step| steps.iter().any(|it| it.execution == old.execution && it.key == old.key && it != *old);
    then.filter(again).cloned().collect()
}

pub fn frames(state: &MemoryState, bug: Bug, mut ask: FramePageAsk) -> Vec<Frame> {
    match bug {
        Bug::FrameOrderIgnored => ask.order = Order::OldestFirst,
        Bug::FramesIgnoreBytes => ask.bytes = usize::MAX,
        Bug::NoFrameWithoutRoom if ask.bytes == 0 => return Vec::new(),
        Bug::FramePageIncludesItsStart if ask.after > 0 => match ask.order {
            Order::OldestFirst => ask.after -= 1,
            Order::NewestFirst => ask.after += 1,
        },
        Bug::FramesOfAllAttempts => {
            let attempts = (0..=5).flat_map(|attempt| state.frames(&FramePageAsk { attempt, ..ask }));
            return attempts.collect();
        }
        _ => {}
    }
    state.frames(&ask)
}

pub fn waitpoints(state: &MemoryState, bug: Bug, mut ask: WaitpointPageAsk) -> WaitpointPage {
    match bug {
        Bug::WaitpointPageIncludesItsStart => {
            ask.after = ask.after.map(|id| match ask.order {
                Order::OldestFirst => WaitpointId { number: id.number.saturating_sub(1), ..id },
                Order::NewestFirst => WaitpointId { number: id.number + 1, ..id },
            });
        }
        Bug::WaitpointPageOrderIgnored => ask.order = Order::OldestFirst,
        Bug::WaitpointFilterIgnoresTheName => ask.filter.name = None,
        Bug::WaitpointFilterIgnoresTheExecution => ask.filter.execution = None,
        Bug::WaitpointScanWithoutBound => ask.scan_max = usize::MAX,
        _ => {}
    }
    state.waitpoints(&ask)
}
