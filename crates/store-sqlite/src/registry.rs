//! Records of the registry: how they are read.

use std::sync::Arc;

use ff_core::registry::{Record, RecordKind};
use ff_core::workspace::Answer;
use rusqlite::{Row, params};

use crate::reader::Reads;
use crate::records::{Read, ReadError, text};

impl Reads<'_> {
    pub(crate) fn registry(
        &mut self,
        partition: i64,
        kind: RecordKind,
        id: Option<Box<str>>,
    ) -> Read<Answer> {
        let mut rows = match &id {
            Some(id) => self.sql.record.query(params![partition, kind.word(), &**id])?,
            None => self.sql.records.query(params![partition, kind.word()])?,
        };
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            records.push(Arc::new(record(kind, row)?));
        }
        drop(rows);
        Ok(Answer::Registry { kind, id, records })
    }
}

fn record(kind: RecordKind, row: &Row<'_>) -> Read<Record> {
    Record::read(kind, text(row, 0)?).map_err(|error| ReadError::Unreadable("record", error.to_string()))
}
