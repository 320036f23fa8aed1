//! The part of a dump that arrived for executions, and what they left behind.

use ff_core::key::{Ask, Key};
use ff_core::query::{FramePageAsk, Order, WaitpointFilter, WaitpointPageAsk};
use ff_core::step::Step;
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::{Signal, WaitpointEntry};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, PartitionId};

use super::{Check, ensure_eq};
use crate::{Store, StoreError};

const ALL: usize = 1_000_000;
/// Signals that are looked for in any case, also if no mailbox speaks of them.
const SIGNALS_MIN: u32 = 3;
/// Of how many attempts before the stream's frames are looked for.
const ATTEMPTS_BEFORE: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    pub waitpoints: Vec<WaitpointEntry>,
    pub signals: Vec<Signal>,
    pub steps: Vec<Step>,
    pub streams: Vec<Stream>,
    pub frames: Vec<Frame>,
}

impl Mail {
    pub async fn of(store: &dyn Store, executions: &[Execution]) -> Result<Mail, StoreError> {
        let (filter, order) = (WaitpointFilter::default(), Order::OldestFirst);
        let ask = WaitpointPageAsk { filter, order, after: None, limit: ALL, scan_max: ALL };
        let waitpoints = store.waitpoints(ask).await?.waitpoints;
        let received = |it: &Execution| it.mailbox().map_or(0, |mailbox| mailbox.received).max(SIGNALS_MIN);
        let keys = executions.iter().flat_map(|it| (1..=received(it)).map(|number| (it.id, number)));
        let signals = store.signals(keys.collect()).await?.into_iter().flatten().collect();
        let steps = store.steps(executions.iter().map(|it| it.id).collect()).await?;
        let streams = streams(store, executions).await?;
        let mut frames = Vec::new();
        for stream in &streams {
            for attempt in stream.attempt.saturating_sub(ATTEMPTS_BEFORE)..=stream.attempt {
                let (execution, after, bytes) = (stream.execution, 0, usize::MAX >> 1);
                let ask = FramePageAsk { execution, attempt, order, after, limit: ALL, bytes };
                frames.extend(store.frames(ask).await?);
            }
        }
        Ok(Mail { waitpoints, signals, steps, streams, frames })
    }

    pub fn compare(&self, want: &Mail) -> Check {
        ensure_eq!(self.waitpoints, want.waitpoints, "open waitpoints");
        ensure_eq!(self.signals, want.signals, "signals");
        ensure_eq!(self.steps, want.steps, "steps");
        ensure_eq!(self.streams, want.streams, "streams");
        ensure_eq!(self.frames, want.frames, "frames");
        Ok(())
    }
}

async fn streams(store: &dyn Store, executions: &[Execution]) -> Result<Vec<Stream>, StoreError> {
    let partitions = store.info().partitions;
    let home = |id: ExecutionId| id.route().partition(partitions);
    let mut streams = Vec::new();
    for partition in (0..partitions).map(PartitionId) {
        let here = executions.iter().filter(|it| home(it.id) == partition);
        let asks = here.map(|it| Ask::Record(Key::Stream(it.id))).collect();
        for answer in store.load(partition, asks).await?.answers {
            if let Answer::Stream(_, Some(stream)) = answer {
                streams.push((*stream).clone());
            }
        }
    }
    Ok(streams)
}
