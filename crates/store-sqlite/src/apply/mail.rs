//! Waitpoints, signals, steps, streams and signing keys on their way in.

use ff_core::ExecutionId;
use ff_core::change::Changes;
use ff_core::stream::{Frame, Stream, Trim};
use ff_core::suspension::WaitpointEntry;
use rusqlite::{ToSql, params};

use super::{Apply, int};
use crate::sql::write;

/// Which of the tables that few executions use have any row. A removal asks once for all executions that go with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traces {
    signals: bool,
    steps: bool,
    streams: bool,
    frames: bool,
}

impl Apply<'_> {
    pub(super) fn traces(&mut self) -> rusqlite::Result<Traces> {
        self.ran += 1;
        self.sql.has_traces.query_row([], |row| {
            let (signals, steps) = (row.get(0)?, row.get(1)?);
            Ok(Traces { signals, steps, streams: row.get(2)?, frames: row.get(3)? })
        })
    }

    /// Removes what belongs to an execution beside its record, payloads and attempts.
    pub(super) fn purge_traces(&mut self, traces: Traces, id: ExecutionId) -> rusqlite::Result<()> {
        let id = id.0.as_bytes();
        if traces.signals {
            run!(self, delete_signals, params![id])?;
        }
        if traces.steps {
            run!(self, delete_steps, params![id])?;
        }
        if traces.streams {
            run!(self, delete_stream, params![id])?;
        }
        if traces.frames {
            run!(self, delete_frames, params![id])?;
        }
        let Traces { signals, steps, streams, frames } = traces;
        self.ran += [signals, steps, streams, frames].into_iter().map(u64::from).sum::<u64>();
        Ok(())
    }

    pub(super) fn mail(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (id, key) in &changes.signing_keys {
            match key {
                Some(key) => {
                    let (secret, created_at) = (&key.secret.0, key.created_at);
                    let row = params![partition, id, secret, created_at, key.retires_at, int(key.revision)];
                    run!(self, put_signing_key, row)?
                }
                None => run!(self, delete_signing_key, params![partition, id])?,
            };
        }
        for id in &changes.waitpoints_removed {
            run!(self, delete_waitpoint, params![id.execution.0.as_bytes(), id.number])?;
        }
        for entry in &changes.waitpoints_added {
            self.insert_waitpoint(partition, entry)?;
        }
        for signal in &changes.signals {
            let row = params![
                signal.execution.0.as_bytes(),
                signal.number,
                signal.at,
                signal.name.as_deref(),
                signal.waitpoint,
                signal.source.as_deref(),
                signal.correlation.as_deref(),
                &*signal.payload.content_type,
                &signal.payload.bytes[..],
            ];
            run!(self, insert_signal, row)?;
        }
        for step in &changes.steps {
            let row = params![
                step.execution.0.as_bytes(),
                step.key.name.as_str(),
                step.key.occurrence,
                step.number,
                step.kind.word(),
                step.attempt,
                step.started_at,
                step.ended_at,
                &*step.result.content_type,
                &step.result.bytes[..],
            ];
            run!(self, put_step, row)?;
        }
        self.output(partition, changes)
    }

    fn insert_waitpoint(&mut self, partition: i64, entry: &WaitpointEntry) -> rusqlite::Result<()> {
        run!(
            self,
            insert_waitpoint,
            params![
                entry.id.execution.0.as_bytes(),
                entry.id.number,
                partition,
                entry.namespace.as_str(),
                entry.lane.as_str(),
                entry.kind.as_str(),
                entry.name.as_deref(),
                entry.reason.map(|reason| reason.word()),
                entry.opened_at,
                entry.expires_at,
                entry.digest.as_ref().map(|digest| &digest.0),
            ]
        )?;
        Ok(())
    }

    fn output(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (id, stream) in &changes.streams {
            match stream {
                Some(stream) => self.put_stream(partition, stream)?,
                None => drop(run!(self, delete_stream, params![id.0.as_bytes()])?),
            }
        }
        for trim in &changes.frames_trimmed {
            match trim {
                Trim::Below { execution, attempt, number } => {
                    let row = params![execution.0.as_bytes(), attempt, int(*number)];
                    run!(self, delete_frames_below, row)?
                }
                Trim::Older { execution, mode, before } => {
                    run!(self, delete_frames_older, params![execution.0.as_bytes(), mode.word(), before])?
                }
            };
        }
        for Frame { execution, attempt, number, at, kind, mode, bytes } in &changes.frames {
            let id = execution.0.as_bytes();
            let row = params![id, attempt, int(*number), at, kind.as_str(), mode.word(), &bytes[..]];
            run!(self, insert_frame, row)?;
        }
        Ok(())
    }

    fn put_stream(&mut self, partition: i64, stream: &Stream) -> rusqlite::Result<()> {
        let summary = stream.summary.as_ref();
        run!(
            self,
            put_stream,
            params![
                stream.execution.0.as_bytes(),
                partition,
                stream.attempt,
                int(stream.next),
                int(stream.first),
                summary.map(|it| int(it.version)),
                summary.map(|it| it.document.get()),
                stream.durable_at,
                stream.best_effort_at,
                stream.trim_at,
            ]
        )?;
        Ok(())
    }
}
