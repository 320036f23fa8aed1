//! How events are kept: packed into JSON arrays, so that a commit of a thousand events costs a few rows.

use ff_core::event::Event;
use rusqlite::{Connection, Statement, params};

use crate::apply::{Text, encode, int};
use crate::raw::Tape;
use crate::sql::write;

/// Most readers want a hundred events at a time; a larger pack would be parsed many times over.
const PER_ROW_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct EventWriter<'c> {
    insert: Statement<'c>,
    across: Statement<'c>,
    delete_below: Statement<'c>,
}

impl<'c> EventWriter<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(EventWriter {
            insert: conn.prepare(write::insert_events)?,
            across: conn.prepare(write::events_across)?,
            delete_below: conn.prepare(write::delete_events_below)?,
        })
    }

    /// Returns how many statements it took.
    pub(crate) fn append(
        &mut self,
        partition: i64,
        events: &[Event],
        json: &mut Vec<u8>,
        tape: &mut Option<Tape>,
    ) -> rusqlite::Result<u64> {
        let mut statements = 0;
        for pack in events.chunks(PER_ROW_MAX) {
            let (Some(first), Some(last)) = (pack.first(), pack.last()) else { continue };
            encode(json, pack)?;
            let row = params![partition, int(first.number), int(last.number), last.at, Text(json)];
            if let Some(tape) = tape {
                tape.note(write::insert_events, row)?;
            }
            self.insert.execute(row)?;
            statements += 1;
        }
        Ok(statements)
    }

    /// Removes the events with smaller numbers; a pack that holds both kinds is written anew.
    pub(crate) fn trim_below(
        &mut self,
        partition: i64,
        number: u64,
        json: &mut Vec<u8>,
    ) -> rusqlite::Result<()> {
        let mut kept: Vec<Event> = Vec::new();
        let mut rows = self.across.query(params![partition, int(number)])?;
        if let Some(row) = rows.next()? {
            let pack: Vec<Event> = serde_json::from_slice(row.get_ref(3)?.as_bytes()?)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            kept = pack.into_iter().filter(|event| event.number >= number).collect();
        }
        drop(rows);
        self.delete_below.execute(params![partition, int(number)])?;
        self.append(partition, &kept, json, &mut None)?;
        Ok(())
    }
}
