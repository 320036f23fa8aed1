//! Waitpoints, signals, steps, streams and signing keys: how they are read.

use std::sync::Arc;

use ff_core::name::{FrameKind, SignalName, StepName};
use ff_core::payload::Payload;
use ff_core::query::{FramePageAsk, Order, WaitpointPage, WaitpointPageAsk};
use ff_core::state::Reason;
use ff_core::step::{Step, StepKey, StepKind};
use ff_core::stream::{Frame, FrameMode, Stream, Summary};
use ff_core::suspension::token::Secret;
use ff_core::suspension::{Digest, Signal, SigningKey, WaitpointEntry, WaitpointId};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, Kind, Namespace};
use ff_store::Trace;
use rusqlite::{Row, params};
use serde_json::value::RawValue;

use crate::apply::int;
use crate::reader::Reads;
use crate::records::{Read, ReadError, count, id, lane, text};

impl Reads<'_> {
    pub(crate) fn stream(&mut self, partition: i64, key: ExecutionId) -> Read<Answer> {
        let mut rows = self.sql.stream.query([key.0.as_bytes()])?;
        let found = match rows.next()? {
            Some(row) if row.get::<_, i64>(0)? == partition => Some(Arc::new(stream(key, row)?)),
            _ => None,
        };
        Ok(Answer::Stream(key, found))
    }

    pub(crate) fn signing_key(&mut self, partition: i64, key: u32) -> Read<Answer> {
        let mut rows = self.sql.signing_key.query(params![partition, key])?;
        let found = match rows.next()? {
            Some(row) => Some(Arc::new(signing_key(row)?)),
            None => None,
        };
        Ok(Answer::SigningKey(key, found))
    }

    pub(crate) fn signing_keys(&mut self, partition: i64) -> Read<Vec<Arc<SigningKey>>> {
        let mut keys = Vec::new();
        let mut rows = self.sql.signing_keys.query([partition])?;
        while let Some(row) = rows.next()? {
            keys.push(Arc::new(signing_key(row)?));
        }
        Ok(keys)
    }

    pub(crate) fn steps(&mut self, executions: &[ExecutionId]) -> Read<Vec<Step>> {
        let mut steps = Vec::new();
        for execution in executions {
            let mine = steps.len();
            let mut rows = self.sql.steps.query([execution.0.as_bytes()])?;
            while let Some(row) = rows.next()? {
                steps.push(step(*execution, row)?);
            }
            steps[mine..].sort_by_key(|step| step.number);
        }
        Ok(steps)
    }

    pub(crate) fn signals(&mut self, keys: &[(ExecutionId, u32)]) -> Read<Vec<Option<Signal>>> {
        let mut signals = Vec::with_capacity(keys.len());
        for (execution, number) in keys {
            let mut rows = self.sql.signal.query(params![execution.0.as_bytes(), number])?;
            signals.push(match rows.next()? {
                Some(row) => Some(signal(*execution, *number, row)?),
                None => None,
            });
        }
        Ok(signals)
    }

    pub(crate) fn frames(&mut self, ask: &FramePageAsk) -> Read<Vec<Frame>> {
        let FramePageAsk { execution, attempt, order, after, limit, bytes } = *ask;
        let place = if order == Order::NewestFirst && after == 0 { i64::MAX } else { int(after) };
        let statement = match order {
            Order::NewestFirst => &mut self.sql.frames_newest_first,
            Order::OldestFirst => &mut self.sql.frames_oldest_first,
        };
        let mut rows = statement.query(params![execution.0.as_bytes(), attempt, place])?;
        let (mut frames, mut total) = (Vec::new(), 0);
        while frames.len() < limit
            && (frames.is_empty() || total < bytes)
            && let Some(row) = rows.next()?
        {
            let content = row.get_ref(4)?.as_blob()?.to_vec();
            total += content.len();
            frames.push(Frame {
                execution,
                attempt,
                number: count(row, 0)?,
                at: row.get(1)?,
                kind: FrameKind::parse(text(row, 2)?).map_err(|error| unreadable("kind", error))?,
                mode: FrameMode::from_word(text(row, 3)?).ok_or_else(|| unreadable("mode", "frame"))?,
                bytes: content.into(),
            });
        }
        Ok(frames)
    }

    pub(crate) fn orphans(&mut self, limit: usize) -> Read<Vec<(Trace, ExecutionId)>> {
        let mut rows = self.sql.orphans.query([int(limit as u64)])?;
        let mut orphans = Vec::new();
        while let Some(row) = rows.next()? {
            let what = Trace::from_word(text(row, 0)?).ok_or_else(|| unreadable("trace", "of nobody"))?;
            orphans.push((what, ExecutionId(id(row, 1)?)));
        }
        Ok(orphans)
    }

    pub(crate) fn waitpoints(&mut self, ask: &WaitpointPageAsk) -> Read<WaitpointPage> {
        let statement = match ask.order {
            Order::NewestFirst => &mut self.sql.waitpoints_newest_first,
            Order::OldestFirst => &mut self.sql.waitpoints_oldest_first,
        };
        let (from, number) = start(ask);
        let mut rows = statement.query(params![from, number])?;
        let mut page = WaitpointPage { waitpoints: Vec::new(), next: None };
        let mut looked = 0;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let place = WaitpointId { execution: ExecutionId(id(row, 0)?), number: row.get(1)? };
            // The rows of one execution lie together, and the first of them is where reading starts.
            if ask.filter.execution.is_some_and(|only| only != place.execution) {
                break;
            }
            if last.is_some() && (page.waitpoints.len() >= ask.limit.max(1) || looked >= ask.scan_max) {
                page.next = last;
                break;
            }
            (looked, last) = (looked + 1, Some(place));
            let entry = waitpoint(place, row)?;
            if ask.filter.matches(&entry) {
                page.waitpoints.push(entry);
            }
        }
        Ok(page)
    }
}

/// The place before the first row of a page, in the order asked for.
fn start(ask: &WaitpointPageAsk) -> (Vec<u8>, i64) {
    let after = ask.after.map(|id| (id.execution.0.as_bytes().to_vec(), i64::from(id.number)));
    let only = ask.filter.execution.map(|id| id.0.as_bytes().to_vec());
    match ask.order {
        Order::OldestFirst => after.max(only.map(|id| (id, -1))).unwrap_or_default(),
        Order::NewestFirst => {
            let only = only.map(|id| (id, i64::MAX));
            let bounds = after.into_iter().chain(only);
            // Longer than any id, and after all of them.
            bounds.min().unwrap_or_else(|| (vec![0xff; 17], 0))
        }
    }
}

fn stream(execution: ExecutionId, row: &Row<'_>) -> Read<Stream> {
    let version: Option<i64> = row.get(4)?;
    let document: Option<String> = row.get(5)?;
    let summary = match document {
        Some(document) => {
            let document = RawValue::from_string(document).map_err(|error| unreadable("summary", error))?;
            Some(Summary { version: version.unwrap_or(0).unsigned_abs(), document })
        }
        None => None,
    };
    Ok(Stream {
        execution,
        attempt: row.get(1)?,
        next: count(row, 2)?,
        first: count(row, 3)?,
        summary,
        durable_at: row.get(6)?,
        best_effort_at: row.get(7)?,
        trim_at: row.get(8)?,
    })
}

fn signing_key(row: &Row<'_>) -> Read<SigningKey> {
    Ok(SigningKey {
        id: row.get(0)?,
        secret: Secret(row.get(1)?),
        created_at: row.get(2)?,
        retires_at: row.get(3)?,
        revision: count(row, 4)?,
    })
}

fn step(execution: ExecutionId, row: &Row<'_>) -> Read<Step> {
    let name = StepName::parse(text(row, 0)?).map_err(|error| unreadable("step", error))?;
    Ok(Step {
        execution,
        key: StepKey { name, occurrence: row.get(1)? },
        number: row.get(2)?,
        kind: StepKind::from_word(text(row, 3)?).ok_or_else(|| unreadable("kind", "step"))?,
        attempt: row.get(4)?,
        started_at: row.get(5)?,
        ended_at: row.get(6)?,
        result: payload(row, 7)?,
    })
}

fn signal(execution: ExecutionId, number: u32, row: &Row<'_>) -> Read<Signal> {
    Ok(Signal {
        execution,
        number,
        at: row.get(0)?,
        name: signal_name(row, 1)?,
        waitpoint: row.get(2)?,
        source: row.get(3)?,
        correlation: row.get(4)?,
        payload: payload(row, 5)?,
    })
}

fn waitpoint(id: WaitpointId, row: &Row<'_>) -> Read<WaitpointEntry> {
    let reason = match row.get_ref(6)?.as_str_or_null()? {
        Some(word) => Some(Reason::from_word(word).ok_or_else(|| unreadable("reason", "waitpoint"))?),
        None => None,
    };
    Ok(WaitpointEntry {
        id,
        namespace: Namespace::parse(text(row, 2)?).map_err(|error| unreadable("namespace", error))?,
        lane: lane(row, 3)?,
        kind: Kind::parse(text(row, 4)?).map_err(|error| unreadable("kind", error))?,
        name: signal_name(row, 5)?,
        reason,
        opened_at: row.get(7)?,
        expires_at: row.get(8)?,
        digest: row.get::<_, Option<[u8; 32]>>(9)?.map(Digest),
    })
}

fn signal_name(row: &Row<'_>, column: usize) -> Read<Option<SignalName>> {
    let name = row.get_ref(column)?.as_str_or_null()?;
    name.map(SignalName::parse).transpose().map_err(|error| unreadable("name", error))
}

/// From two columns that follow each other.
fn payload(row: &Row<'_>, column: usize) -> Read<Payload> {
    let bytes = row.get_ref(column + 1)?.as_blob()?.to_vec();
    Ok(Payload { content_type: text(row, column)?.into(), bytes: bytes.into() })
}

fn unreadable(what: &'static str, why: impl ToString) -> ReadError {
    ReadError::Unreadable(what, why.to_string())
}
