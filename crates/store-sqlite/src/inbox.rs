//! Rows that applications post, and those that were given up.

use ff_core::inbox::{DeadLetter, Posted};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, Payload};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::apply::int;
use crate::reader::Reads;
use crate::records::{Read, count};
use crate::sql::write;

impl Reads<'_> {
    pub(crate) fn inbox(&mut self, partition: i64, limit: usize, bytes: usize) -> Read<Answer> {
        let (mut posted, mut total) = (Vec::new(), 0);
        let mut rows = self.sql.inbox.query(params![partition, int(limit as u64)])?;
        while total < bytes
            && let Some(row) = rows.next()?
        {
            let row = read_posted(row)?;
            total += row.input.len();
            posted.push(row);
        }
        Ok(Answer::Inbox(posted))
    }

    pub(crate) fn dead_letters(&mut self, partition: i64, after: u64, limit: usize) -> Read<Answer> {
        let mut letters = Vec::new();
        let mut rows = self.sql.dead_letters.query(params![partition, int(after), int(limit as u64)])?;
        while let Some(row) = rows.next()? {
            let reason = words(row, 10)?.unwrap_or_default();
            letters.push(DeadLetter { posted: read_posted(row)?, reason, at: row.get(11)? });
        }
        Ok(Answer::DeadLetters { after, letters })
    }
}

/// Writes rows under numbers of their own, in the order given.
pub(crate) fn post(conn: &Connection, partitions: u16, rows: &[Posted]) -> rusqlite::Result<()> {
    let mut insert = conn.prepare(write::post)?;
    for row in rows {
        insert.execute(params![
            row.partition(partitions).0,
            row.id.map(|id| *id.0.as_bytes()),
            row.posted_at,
            row.kind,
            &row.input.bytes[..],
            &*row.input.content_type,
            row.namespace,
            row.lane,
            row.key,
            row.options,
        ])?;
    }
    Ok(())
}

fn read_posted(row: &Row<'_>) -> Read<Posted> {
    let bytes = row.get_ref(4)?.as_bytes()?.to_vec().into();
    let content_type = words(row, 5)?.unwrap_or_default().into();
    Ok(Posted {
        number: count(row, 0)?,
        id: row.get::<_, Option<[u8; 16]>>(1)?.map(|id| ExecutionId(Uuid::from_bytes(id))),
        posted_at: row.get(2)?,
        kind: words(row, 3)?.unwrap_or_default(),
        input: Payload { content_type, bytes },
        namespace: words(row, 6)?,
        lane: words(row, 7)?,
        key: words(row, 8)?,
        options: words(row, 9)?,
    })
}

/// Text that another program wrote. SQLite does not check its encoding, and one row that cannot be read must not
/// hide the others.
fn words(row: &Row<'_>, column: usize) -> Read<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
