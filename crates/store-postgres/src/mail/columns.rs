//! The mail of several commits as columns: one argument of the commit function.

use bytes::BytesMut;
use ff_core::change::Changes;
use ff_core::stream::Trim;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::columns::{BoxError, Param, int, row};

macro_rules! columns {
    ($($name:ident: $rust:ty, $sql:ident;)+) => {
        /// Lists of equal length for each kind of write, in the order of the type `mail_columns_1`.
        #[derive(Debug, Default)]
        pub(crate) struct MailColumns<'a> { $($name: Vec<$rust>,)+ }

        impl MailColumns<'_> {
            fn columns(&self) -> Vec<Param<'_>> {
                vec![$((&self.$name, Type::$sql)),+]
            }

            fn is_empty(&self) -> bool {
                let MailColumns {
                    closed_partition, opened_partition, signal_partition, step_partition, stream_partition,
                    trim_partition, frame_partition, ..
                } = self;
                [
                    closed_partition, opened_partition, signal_partition, step_partition, stream_partition,
                    trim_partition, frame_partition,
                ].iter().all(|list| list.is_empty())
            }
        }
    };
}

columns! {
    closed_partition: i32, INT4_ARRAY;
    closed_execution: Uuid, UUID_ARRAY;
    closed_number: i64, INT8_ARRAY;
    opened_partition: i32, INT4_ARRAY;
    opened_execution: Uuid, UUID_ARRAY;
    opened_number: i64, INT8_ARRAY;
    opened_namespace: &'a str, TEXT_ARRAY;
    opened_lane: &'a str, TEXT_ARRAY;
    opened_kind: &'a str, TEXT_ARRAY;
    opened_name: Option<&'a str>, TEXT_ARRAY;
    opened_reason: Option<&'a str>, TEXT_ARRAY;
    opened_at: i64, INT8_ARRAY;
    opened_expires_at: Option<i64>, INT8_ARRAY;
    opened_digest: Option<&'a [u8]>, BYTEA_ARRAY;
    signal_partition: i32, INT4_ARRAY;
    signal_execution: Uuid, UUID_ARRAY;
    signal_number: i64, INT8_ARRAY;
    signal_at: i64, INT8_ARRAY;
    signal_name: Option<&'a str>, TEXT_ARRAY;
    signal_waitpoint: Option<i64>, INT8_ARRAY;
    signal_source: Option<&'a str>, TEXT_ARRAY;
    signal_correlation: Option<&'a str>, TEXT_ARRAY;
    signal_content_type: &'a str, TEXT_ARRAY;
    signal_bytes: &'a [u8], BYTEA_ARRAY;
    step_partition: i32, INT4_ARRAY;
    step_execution: Uuid, UUID_ARRAY;
    step_name: &'a str, TEXT_ARRAY;
    step_occurrence: i64, INT8_ARRAY;
    step_number: i64, INT8_ARRAY;
    step_kind: &'a str, TEXT_ARRAY;
    step_attempt: i64, INT8_ARRAY;
    step_started_at: i64, INT8_ARRAY;
    step_ended_at: i64, INT8_ARRAY;
    step_content_type: &'a str, TEXT_ARRAY;
    step_bytes: &'a [u8], BYTEA_ARRAY;
    stream_partition: i32, INT4_ARRAY;
    stream_execution: Uuid, UUID_ARRAY;
    stream_attempt: Option<i64>, INT8_ARRAY;
    stream_next: Option<i64>, INT8_ARRAY;
    stream_first: Option<i64>, INT8_ARRAY;
    stream_summary_version: Option<i64>, INT8_ARRAY;
    stream_summary: Option<&'a str>, TEXT_ARRAY;
    stream_durable_at: Option<i64>, INT8_ARRAY;
    stream_best_effort_at: Option<i64>, INT8_ARRAY;
    stream_trim_at: Option<i64>, INT8_ARRAY;
    trim_partition: i32, INT4_ARRAY;
    trim_execution: Uuid, UUID_ARRAY;
    trim_attempt: Option<i64>, INT8_ARRAY;
    trim_number: Option<i64>, INT8_ARRAY;
    trim_mode: Option<&'a str>, TEXT_ARRAY;
    trim_before: Option<i64>, INT8_ARRAY;
    frame_partition: i32, INT4_ARRAY;
    frame_execution: Uuid, UUID_ARRAY;
    frame_attempt: i64, INT8_ARRAY;
    frame_number: i64, INT8_ARRAY;
    frame_at: i64, INT8_ARRAY;
    frame_kind: &'a str, TEXT_ARRAY;
    frame_mode: &'a str, TEXT_ARRAY;
    frame_bytes: &'a [u8], BYTEA_ARRAY;
}

impl ToSql for MailColumns<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        if self.is_empty() { Ok(IsNull::Yes) } else { row(&self.columns(), out) }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> MailColumns<'a> {
    /// Adds what one commit writes.
    pub(crate) fn add(&mut self, partition: i32, changes: &'a Changes) {
        self.waitpoints(partition, changes);
        for signal in &changes.signals {
            self.signal_partition.push(partition);
            self.signal_execution.push(signal.execution.0);
            self.signal_number.push(signal.number.into());
            self.signal_at.push(signal.at);
            self.signal_name.push(signal.name.as_deref());
            self.signal_waitpoint.push(signal.waitpoint.map(i64::from));
            self.signal_source.push(signal.source.as_deref());
            self.signal_correlation.push(signal.correlation.as_deref());
            self.signal_content_type.push(&signal.payload.content_type);
            self.signal_bytes.push(&signal.payload.bytes);
        }
        for step in &changes.steps {
            self.step_partition.push(partition);
            self.step_execution.push(step.execution.0);
            self.step_name.push(step.key.name.as_str());
            self.step_occurrence.push(step.key.occurrence.into());
            self.step_number.push(step.number.into());
            self.step_kind.push(step.kind.word());
            self.step_attempt.push(step.attempt.into());
            self.step_started_at.push(step.started_at);
            self.step_ended_at.push(step.ended_at);
            self.step_content_type.push(&step.result.content_type);
            self.step_bytes.push(&step.result.bytes);
        }
        self.output(partition, changes);
    }

    fn waitpoints(&mut self, partition: i32, changes: &'a Changes) {
        for id in &changes.waitpoints_removed {
            self.closed_partition.push(partition);
            self.closed_execution.push(id.execution.0);
            self.closed_number.push(id.number.into());
        }
        for entry in &changes.waitpoints_added {
            self.opened_partition.push(partition);
            self.opened_execution.push(entry.id.execution.0);
            self.opened_number.push(entry.id.number.into());
            self.opened_namespace.push(entry.namespace.as_str());
            self.opened_lane.push(entry.lane.as_str());
            self.opened_kind.push(entry.kind.as_str());
            self.opened_name.push(entry.name.as_deref());
            self.opened_reason.push(entry.reason.map(|reason| reason.word()));
            self.opened_at.push(entry.opened_at);
            self.opened_expires_at.push(entry.expires_at);
            self.opened_digest.push(entry.digest.as_ref().map(|digest| &digest.0[..]));
        }
    }

    /// Streams; one without an attempt goes. Then what is trimmed of them, and their new frames.
    fn output(&mut self, partition: i32, changes: &'a Changes) {
        for (id, stream) in &changes.streams {
            let stream = stream.as_deref();
            let summary = stream.and_then(|it| it.summary.as_ref());
            self.stream_partition.push(partition);
            self.stream_execution.push(id.0);
            self.stream_attempt.push(stream.map(|it| it.attempt.into()));
            self.stream_next.push(stream.map(|it| int(it.next)));
            self.stream_first.push(stream.map(|it| int(it.first)));
            self.stream_summary_version.push(summary.map(|it| int(it.version)));
            self.stream_summary.push(summary.map(|it| it.document.get()));
            self.stream_durable_at.push(stream.and_then(|it| it.durable_at));
            self.stream_best_effort_at.push(stream.and_then(|it| it.best_effort_at));
            self.stream_trim_at.push(stream.and_then(|it| it.trim_at));
        }
        for trim in &changes.frames_trimmed {
            let (attempt, number, mode, before) = match *trim {
                Trim::Below { attempt, number, .. } => (Some(attempt.into()), Some(int(number)), None, None),
                Trim::Older { mode, before, .. } => (None, None, Some(mode.word()), Some(before)),
            };
            self.trim_partition.push(partition);
            self.trim_execution.push(trim.execution().0);
            self.trim_attempt.push(attempt);
            self.trim_number.push(number);
            self.trim_mode.push(mode);
            self.trim_before.push(before);
        }
        for frame in &changes.frames {
            self.frame_partition.push(partition);
            self.frame_execution.push(frame.execution.0);
            self.frame_attempt.push(frame.attempt.into());
            self.frame_number.push(int(frame.number));
            self.frame_at.push(frame.at);
            self.frame_kind.push(frame.kind.as_str());
            self.frame_mode.push(frame.mode.word());
            self.frame_bytes.push(&frame.bytes);
        }
    }
}
