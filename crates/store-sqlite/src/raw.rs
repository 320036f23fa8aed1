//! The bare client: what SQLite itself can do with the same rows in the same transactions.
//!
//! Recorded commits are first turned into statements and values, untimed. Then a client that knows nothing of
//! commits runs exactly those statements, timed: nothing is encoded, nothing is decided, nobody is answered.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ff_store::{Commit, StoreError};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::apply::Apply;
use crate::error::explain;
use crate::open::connect;
use crate::options::{Options, Synchronous};
use crate::sql::write;

/// Statements in the order in which they ran, with their values.
#[derive(Debug, Default)]
pub(crate) struct Tape(Vec<(&'static str, Vec<Value>)>);

impl Tape {
    pub(crate) fn note(&mut self, statement: &'static str, row: &[&dyn ToSql]) -> rusqlite::Result<()> {
        let values = row.iter().map(|value| {
            Ok(match value.to_sql()? {
                ToSqlOutput::Borrowed(value) => owned(value),
                ToSqlOutput::Owned(value) => value,
                _ => Value::Null,
            })
        });
        let values = values.collect::<rusqlite::Result<Vec<Value>>>()?;
        self.0.push((statement, values));
        Ok(())
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Whether a statement writes a record, as [`rows`](ff_core::change::Changes::rows) counts them.
fn is_record(statement: &str) -> bool {
    const BESIDE: [&str; 13] = [
        write::add_count,
        write::add_ready_count,
        write::insert_commit,
        write::insert_events,
        write::prune_commits,
        write::delete_zero_counts,
        write::delete_zero_ready_counts,
        write::delete_payloads,
        write::delete_attempts,
        write::delete_signals,
        write::delete_steps,
        write::delete_stream,
        write::delete_frames,
    ];
    !BESIDE.contains(&statement)
}

/// Writes recorded commits again on copies of the file they started from, each group in one transaction.
/// Returns how many records that were and how long it took.
pub fn replay(start: &Path, recorded: Vec<Vec<Commit>>) -> Result<(u64, Duration), StoreError> {
    let copy = |name: &str| -> Result<PathBuf, StoreError> {
        let to = start.with_extension(name);
        std::fs::copy(start, &to)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", to.display())))?;
        Ok(to)
    };
    let (first, second) = (copy("tape.db")?, copy("raw.db")?);
    let transactions = encode(&first, recorded).map_err(|error| explain(&first, &error))?;
    run(&second, &transactions).map_err(|error| explain(&second, &error))
}

fn encode(file: &Path, recorded: Vec<Vec<Commit>>) -> rusqlite::Result<Vec<Tape>> {
    let conn = open(file, Synchronous::Off)?;
    let mut apply = Apply::prepare(&conn)?;
    let mut transactions = Vec::with_capacity(recorded.len());
    for group in recorded {
        apply.tape = Some(Tape::default());
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for commit in &group {
            apply.commit(commit, commit.changes.header.now)?;
        }
        conn.execute_batch("COMMIT")?;
        transactions.extend(apply.tape.take());
    }
    Ok(transactions)
}

fn run(file: &Path, transactions: &[Tape]) -> rusqlite::Result<(u64, Duration)> {
    let conn = open(file, Synchronous::Full)?;
    let mut names: Vec<&'static str> = Vec::new();
    let mut statements = Vec::new();
    let mut programs: Vec<Vec<(usize, &Vec<Value>)>> = Vec::with_capacity(transactions.len());
    let mut records = 0;
    for Tape(tape) in transactions {
        let mut program = Vec::with_capacity(tape.len());
        for (name, values) in tape {
            let at = match names.iter().position(|known| known == name) {
                Some(at) => at,
                None => {
                    names.push(name);
                    statements.push(conn.prepare(name)?);
                    names.len() - 1
                }
            };
            records += u64::from(is_record(name));
            program.push((at, values));
        }
        programs.push(program);
    }
    let (mut begin, mut commit) = (conn.prepare("BEGIN IMMEDIATE")?, conn.prepare("COMMIT")?);
    let started = Instant::now();
    for program in &programs {
        begin.execute([])?;
        for (at, values) in program {
            statements[*at].execute(params_from_iter(values.iter()))?;
        }
        commit.execute([])?;
    }
    Ok((records, started.elapsed()))
}

fn open(file: &Path, synchronous: Synchronous) -> rusqlite::Result<Connection> {
    let conn = connect(file, &Options { synchronous, ..Options::default() })?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", synchronous.word())?;
    // Moving the log into the file is left out: it is not part of what a commit waits for.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(conn)
}
