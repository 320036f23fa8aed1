//! The inbox: rows that applications post beside the engine, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::change::{Changes, Header};
use ff_core::commands::{Command, Receive};
use ff_core::inbox::{DeadLetter, Fate, Posted};
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::workspace::Answer;
use ff_core::{Ms, PartitionId, Payload};

use super::super::engine::Engine;
use super::super::stand::{SERVER, START};
use super::super::{Check, Stand, ensure, ensure_eq, samples};
use crate::{Commit, Outcome, Version};

async fn read(stand: &Stand, partition: PartitionId, limit: usize) -> Result<Vec<Posted>, String> {
    match stand.ask(partition, Ask::Inbox { limit, bytes: usize::MAX }).await? {
        Answer::Inbox(rows) => Ok(rows),
        other => Err(format!("the inbox was asked for, the answer was {other:?}")),
    }
}

async fn dead(stand: &Stand, partition: PartitionId, after: u64) -> Result<Vec<DeadLetter>, String> {
    match stand.ask(partition, Ask::DeadLetters { after, limit: 100 }).await? {
        Answer::DeadLetters(letters) => Ok(letters),
        other => Err(format!("dead letters were asked for, the answer was {other:?}")),
    }
}

async fn posted_in_status(stand: &Stand) -> Result<Vec<bool>, String> {
    let (_, status) = stand.store.status().await.map_err(|error| error.to_string())?;
    Ok(status.iter().map(|it| it.inbox).collect())
}

fn numbers(rows: &[Posted]) -> Vec<u64> {
    rows.iter().map(|row| row.number).collect()
}

fn fates(now: Ms, inbox: Vec<(u64, Fate)>) -> Changes {
    Changes { header: Header { now, ..Header::default() }, inbox, ..Changes::default() }
}

pub async fn posted_rows_are_seen_in_order(stand: &mut Stand) -> Check {
    ensure!(!posted_in_status(stand).await?.contains(&true), "rows in the inbox of a fresh store");
    let partition = stand.last();
    let row = |number| samples::posted(stand.partitions, partition, number);
    // Visible in another order than that of their numbers, as when one transaction is open longer.
    let full = samples::posted_fully(stand.partitions, partition, 9);
    stand.post([row(5), full.clone(), row(7), row(2)]).await?;
    let rows = read(stand, partition, 100).await?;
    ensure_eq!(rows, vec![row(2), row(5), row(7), full], "the inbox");
    ensure_eq!(stand.version(partition).await?, Version::NONE, "the version after rows were posted");
    for other in stand.each() {
        ensure_eq!(posted_in_status(stand).await?[other.index()], other == partition, "inbox of {other}");
        let count = if other == partition { 4 } else { 0 };
        ensure_eq!(read(stand, other, 100).await?.len(), count, "rows in the inbox of {other}");
    }
    stand.reopen().await?;
    stand.same().await
}

pub async fn a_read_of_the_inbox_is_bounded(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let rows = (1..=6).map(|number| Posted {
        input: Payload::json(" ".repeat(1_000)),
        ..samples::posted(stand.partitions, partition, number)
    });
    stand.post(rows).await?;
    for (limit, bytes, count) in
        [(0, 9_999, 0), (1, 9_999, 1), (4, 9_999, 4), (9, 9_999, 6), (9, 1, 1), (9, 2_000, 2), (9, 2_001, 3)]
    {
        let rows = match stand.ask(partition, Ask::Inbox { limit, bytes }).await? {
            Answer::Inbox(rows) => numbers(&rows),
            other => return Err(format!("{other:?}")),
        };
        let want: Vec<u64> = (1..=count).collect();
        ensure_eq!(rows, want, "at most {limit} rows or {bytes} bytes");
    }
    Ok(())
}

pub async fn a_row_that_was_taken_is_gone_and_the_others_stay(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let partitions = stand.partitions;
        let base = 100 * u64::from(partition.0);
        let row = |number| samples::posted(partitions, partition, base + number);
        stand.post([row(1), row(2), row(4)]).await?;
        ensure_eq!(read(stand, partition, 100).await?.len(), 3, "rows before the commit");
        // Posted after the inbox was read, one of them between those that were seen.
        stand.post([row(3), row(5)]).await?;
        let taken = [1, 2, 4].map(|number| (base + number, Fate::Taken));
        stand.write(partition, fates(START, taken.to_vec())).await?;
        let left = numbers(&read(stand, partition, 100).await?);
        ensure_eq!(left, vec![base + 3, base + 5], "rows after the commit");
        ensure!(posted_in_status(stand).await?[partition.index()], "rows are left, the status denies it");
        stand.write(partition, fates(START, vec![(base + 3, Fate::Taken), (base + 5, Fate::Taken)])).await?;
        ensure_eq!(read(stand, partition, 100).await?, vec![], "the inbox after all were taken");
        ensure!(!posted_in_status(stand).await?[partition.index()], "no rows are left, the status denies it");
        ensure_eq!(dead(stand, partition, 0).await?, vec![], "dead letters");
    }
    stand.same().await
}

pub async fn a_conflict_takes_no_rows(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let rows = [1, 2].map(|number| samples::posted(stand.partitions, partition, number));
    stand.post(rows).await?;
    stand.write(partition, Changes::default()).await?;
    let changes = fates(START, vec![(1, Fate::Taken), (2, Fate::dead("late"))]);
    let commit = Commit { partition, expected: Version::NONE, id: stand.new_id(), by: SERVER, changes };
    ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit on an old version");
    ensure_eq!(numbers(&read(stand, partition, 100).await?), vec![1, 2], "rows after a conflict");
    stand.same().await
}

pub async fn dead_letters_keep_everything_with_the_reason(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let plain = samples::posted(stand.partitions, partition, 3);
    let full = samples::posted_fully(stand.partitions, partition, 8);
    stand.post([plain.clone(), full.clone()]).await?;
    let first = vec![(8, Fate::Dead { reason: samples::ODD.to_owned() })];
    stand.write(partition, fates(START + 7, first)).await?;
    ensure_eq!(numbers(&read(stand, partition, 100).await?), vec![3], "the row that was not given up");
    stand.write(partition, fates(START + 9, vec![(3, Fate::dead("why"))])).await?;
    let plain = DeadLetter { posted: plain, reason: "why".to_owned(), at: START + 9 };
    let full = DeadLetter { posted: full, reason: samples::ODD.to_owned(), at: START + 7 };
    ensure_eq!(dead(stand, partition, 0).await?, vec![plain, full.clone()], "dead letters");
    ensure_eq!(dead(stand, partition, 3).await?, vec![full.clone()], "dead letters after a number");
    match stand.ask(partition, Ask::DeadLetters { after: 0, limit: 1 }).await? {
        Answer::DeadLetters(letters) => ensure_eq!(letters.len(), 1, "one dead letter at most"),
        other => return Err(format!("{other:?}")),
    }
    ensure_eq!(read(stand, partition, 100).await?, vec![], "the inbox");
    stand.reopen().await?;
    stand.same().await
}

/// Decides rows as the engine does, on the store and on the reference.
pub async fn every_posted_row_becomes_one_execution_or_one_dead_letter(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let partitions = stand.partitions;
    let rows = (1..=40).map(|number| {
        let row = samples::posted(partitions, partition, number);
        let bad = number % 4 == 0;
        Posted { kind: if bad { String::new() } else { row.kind.clone() }, ..row }
    });
    stand.post(rows).await?;
    let mut engines = [(); 2].map(|()| Engine::new(partitions, Limits::default()));
    let mut seen = BTreeSet::new();
    loop {
        let rows = read(stand, partition, 7).await?;
        if rows.is_empty() {
            break;
        }
        ensure!(rows.iter().all(|row| seen.insert(row.number)), "a row came twice: {:?}", numbers(&rows));
        let command = |posted: Posted| Receive { posted: Arc::new(posted), seed: 7, defect: None }.into();
        let commands: Vec<Command> = rows.into_iter().map(command).collect();
        engines[0].run(&*stand.store, partition, START, &commands).await?;
        engines[1].run(&stand.reference, partition, START, &commands).await?;
    }
    ensure_eq!(seen.len(), 40, "rows that came");
    ensure_eq!(dead(stand, partition, 0).await?.len(), 10, "dead letters");
    let counts = stand.store.counts().await.map_err(|error| error.to_string())?;
    ensure_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 30, "executions");
    stand.same().await
}
