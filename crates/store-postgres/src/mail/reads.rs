//! Questions about steps, signals, frames and waitpoints.

use bytes::Bytes;
use ff_core::name::{FrameKind, SignalName, StepName};
use ff_core::payload::Payload;
use ff_core::query::{FramePageAsk, Order, WaitpointPage, WaitpointPageAsk};
use ff_core::state::Reason;
use ff_core::step::{Step, StepKey, StepKind};
use ff_core::stream::{Frame, FrameMode};
use ff_core::suspension::{Digest, Signal, WaitpointEntry, WaitpointId};
use ff_core::{ExecutionId, Kind, Namespace};
use ff_store::Trace;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::columns::{Param, int};
use crate::records::{Read, ReadError, column, count, lane};

/// How many waitpoints are looked at with one statement.
const STRETCH: usize = 1_000;

pub(crate) async fn steps(client: &Client, executions: &[ExecutionId]) -> Read<Vec<Step>> {
    let executions: Vec<Uuid> = executions.iter().map(|id| id.0).collect();
    let params: [Param<'_>; 1] = [(&executions, Type::UUID_ARRAY)];
    let rows = client.query_typed("SELECT * FROM flowfabric.steps_1($1)", &params).await?;
    rows.iter().map(step).collect()
}

fn step(row: &Row) -> Read<Step> {
    let name = StepName::parse(column(row, 1)?).map_err(|error| unreadable("step", error))?;
    Ok(Step {
        execution: ExecutionId(column(row, 0)?),
        key: StepKey { name, occurrence: small(row, 2)? },
        number: small(row, 3)?,
        kind: StepKind::from_word(column(row, 4)?).ok_or_else(|| unreadable("kind", "step"))?,
        attempt: small(row, 5)?,
        started_at: column(row, 6)?,
        ended_at: column(row, 7)?,
        result: payload(row, 8)?,
    })
}

pub(crate) async fn signals(client: &Client, keys: &[(ExecutionId, u32)]) -> Read<Vec<Option<Signal>>> {
    let executions: Vec<Uuid> = keys.iter().map(|(id, _)| id.0).collect();
    let numbers: Vec<i64> = keys.iter().map(|(_, number)| i64::from(*number)).collect();
    let params: [Param<'_>; 2] = [(&executions, Type::UUID_ARRAY), (&numbers, Type::INT8_ARRAY)];
    let rows = client.query_typed("SELECT * FROM flowfabric.signals_1($1, $2)", &params).await?;
    let mut signals: Vec<Option<Signal>> = vec![None; keys.len()];
    for row in &rows {
        let place = usize::try_from(count(row, 0)?).unwrap_or(0);
        let found = place.checked_sub(1).and_then(|at| Some((keys.get(at)?, signals.get_mut(at)?)));
        let Some(((execution, number), slot)) = found else { continue };
        let waitpoint: Option<i64> = column(row, 3)?;
        *slot = Some(Signal {
            execution: *execution,
            number: *number,
            at: column(row, 1)?,
            name: signal_name(row, 2)?,
            waitpoint: waitpoint.and_then(|it| u32::try_from(it).ok()),
            source: column::<Option<&str>>(row, 4)?.map(Into::into),
            correlation: column::<Option<&str>>(row, 5)?.map(Into::into),
            payload: payload(row, 6)?,
        });
    }
    Ok(signals)
}

pub(crate) async fn frames(client: &Client, ask: &FramePageAsk) -> Read<Vec<Frame>> {
    let FramePageAsk { execution, attempt, order, after, limit, bytes } = *ask;
    let newest_first = order == Order::NewestFirst;
    let after = if newest_first && after == 0 { i64::MAX } else { int(after) };
    let (limit, bytes, wanted) = (int(limit as u64), int(bytes as u64), i64::from(attempt));
    let params: [Param<'_>; 6] = [
        (&execution.0, Type::UUID),
        (&wanted, Type::INT8),
        (&after, Type::INT8),
        (&newest_first, Type::BOOL),
        (&limit, Type::INT8),
        (&bytes, Type::INT8),
    ];
    let rows =
        client.query_typed("SELECT * FROM flowfabric.frames_1($1, $2, $3, $4, $5, $6)", &params).await?;
    let frame = |row: &Row| {
        Ok(Frame {
            execution,
            attempt,
            number: count(row, 0)?,
            at: column(row, 1)?,
            kind: FrameKind::parse(column(row, 2)?).map_err(|error| unreadable("kind", error))?,
            mode: FrameMode::from_word(column(row, 3)?).ok_or_else(|| unreadable("mode", "frame"))?,
            bytes: Bytes::copy_from_slice(column(row, 4)?),
        })
    };
    rows.iter().map(frame).collect()
}

/// What is kept of executions that are not there. A plain statement: it looks at whole tables once, for which the
/// planner's own choice is the right one.
pub(crate) async fn orphans(client: &Client, limit: usize) -> Read<Vec<(Trace, ExecutionId)>> {
    let limit = int(limit as u64);
    let params: [Param<'_>; 1] = [(&limit, Type::INT8)];
    let rows = client.query_typed(include_str!("../../sql/orphans.sql"), &params).await?;
    let orphan = |row: &Row| {
        let what = Trace::from_word(column(row, 0)?).ok_or_else(|| unreadable("trace", "of nobody"))?;
        Ok((what, ExecutionId(column(row, 1)?)))
    };
    rows.iter().map(orphan).collect()
}

/// Reads stretches of open waitpoints until enough were found or looked at.
pub(crate) async fn waitpoints(client: &Client, ask: &WaitpointPageAsk) -> Read<WaitpointPage> {
    const QUERY: &str = "SELECT * FROM flowfabric.waitpoints_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let filter = &ask.filter;
    let execution = filter.execution.map(|id| id.0);
    let namespace = filter.namespace.as_deref();
    let (lane, kind) = (filter.lane.as_deref(), filter.kind.as_deref());
    let (name, reason) = (filter.name.as_deref(), filter.reason.map(|it| it.word()));
    let newest_first = ask.order == Order::NewestFirst;
    let (limit, scan_max) = (ask.limit.max(1), ask.scan_max.max(1));
    let mut page = WaitpointPage { waitpoints: Vec::new(), next: None };
    let (mut last, mut looked) = (ask.after, 0);
    loop {
        let stretch = STRETCH.min(scan_max - looked).min(limit.max(16));
        // One more than is looked at, to know whether there is more.
        let rows_max = int(stretch as u64 + 1);
        let (after, number) = (last.map(|id| id.execution.0), last.map(|id| i64::from(id.number)));
        let params: [Param<'_>; 10] = [
            (&after, Type::UUID),
            (&number, Type::INT8),
            (&newest_first, Type::BOOL),
            (&rows_max, Type::INT8),
            (&execution, Type::UUID),
            (&namespace, Type::TEXT),
            (&lane, Type::TEXT),
            (&kind, Type::TEXT),
            (&name, Type::TEXT),
            (&reason, Type::TEXT),
        ];
        let rows = client.query_typed(QUERY, &params).await?;
        for row in rows.iter().take(stretch) {
            if page.waitpoints.len() >= limit {
                page.next = last;
                return Ok(page);
            }
            let id = WaitpointId { execution: ExecutionId(column(row, 0)?), number: small(row, 1)? };
            (last, looked) = (Some(id), looked + 1);
            if column(row, 2)? {
                let entry = waitpoint(id, row)?;
                if filter.matches(&entry) {
                    page.waitpoints.push(entry);
                }
            }
        }
        if rows.len() <= stretch {
            return Ok(page);
        }
        if page.waitpoints.len() >= limit || looked >= scan_max {
            page.next = last;
            return Ok(page);
        }
    }
}

fn waitpoint(id: WaitpointId, row: &Row) -> Read<WaitpointEntry> {
    let reason = match column::<Option<&str>>(row, 7)? {
        Some(word) => Some(Reason::from_word(word).ok_or_else(|| unreadable("reason", word))?),
        None => None,
    };
    let digest = column::<Option<&[u8]>>(row, 10)?.map(<[u8; 32]>::try_from).transpose();
    Ok(WaitpointEntry {
        id,
        namespace: Namespace::parse(column(row, 3)?).map_err(|error| unreadable("namespace", error))?,
        lane: lane(column(row, 4)?)?,
        kind: Kind::parse(column(row, 5)?).map_err(|error| unreadable("kind", error))?,
        name: signal_name(row, 6)?,
        reason,
        opened_at: column(row, 8)?,
        expires_at: column(row, 9)?,
        digest: digest.map_err(|error| unreadable("digest", error))?.map(Digest),
    })
}

fn signal_name(row: &Row, at: usize) -> Read<Option<SignalName>> {
    let name: Option<&str> = column(row, at)?;
    name.map(SignalName::parse).transpose().map_err(|error| unreadable("name", error))
}

/// From two columns that follow each other.
fn payload(row: &Row, at: usize) -> Read<Payload> {
    let (content_type, bytes): (&str, &[u8]) = (column(row, at)?, column(row, at + 1)?);
    Ok(Payload { content_type: content_type.into(), bytes: Bytes::copy_from_slice(bytes) })
}

/// A number that the core keeps in 32 bits.
fn small(row: &Row, at: usize) -> Read<u32> {
    u32::try_from(column::<i64>(row, at)?).map_err(|error| unreadable("number", error))
}

fn unreadable(what: &'static str, why: impl ToString) -> ReadError {
    ReadError::Unreadable(what, why.to_string())
}
