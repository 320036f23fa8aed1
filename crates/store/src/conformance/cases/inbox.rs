//! The inbox: rows that applications post beside the engine, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::change::{Changes, Header};
use ff_core::commands::{Command, DropLetter, Receive, RepostLetter};
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
        Answer::DeadLetters { letters, .. } => Ok(letters),
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
        Answer::DeadLetters { after, letters } => {
            ensure_eq!((after, letters.len()), (0, 1), "one dead letter at most, and after which it comes");
        }
        other => return Err(format!("{other:?}")),
    }
    ensure_eq!(read(stand, partition, 100).await?, vec![], "the inbox");
    stand.reopen().await?;
    stand.same().await
}

pub async fn letters_are_reposted_as_they_were_and_dropped_for_good(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let partitions = stand.partitions;
    let plain = |number| samples::posted(partitions, partition, number);
    let full = samples::posted_fully(partitions, partition, 8);
    let rows = [plain(3), plain(4), plain(5), plain(6), full.clone()];
    stand.post(rows).await?;
    let die = |numbers: &[u64]| numbers.iter().map(|it| (*it, Fate::dead("why"))).collect::<Vec<_>>();
    stand.write(partition, fates(START, die(&[3, 4, 8]))).await?;
    // What is no letter stays what it is, also where another partition has a letter of that number.
    let (nothing, elsewhere) = (vec![(5, Fate::Reposted), (6, Fate::Dropped)], PartitionId(0));
    stand.write(partition, fates(START, nothing)).await?;
    if elsewhere != partition {
        stand.write(elsewhere, fates(START, vec![(3, Fate::Reposted), (4, Fate::Dropped)])).await?;
    }
    ensure_eq!(numbers(&read(stand, partition, 100).await?), vec![5, 6], "the inbox before");
    stand.write(partition, fates(START, vec![(8, Fate::Reposted), (3, Fate::Dropped)])).await?;
    ensure_eq!(read(stand, partition, 100).await?, vec![plain(5), plain(6), full], "the inbox after");
    let left = dead(stand, partition, 0).await?;
    ensure_eq!(left.iter().map(|it| it.posted.number).collect::<Vec<_>>(), vec![4], "the letters");
    ensure!(posted_in_status(stand).await?[partition.index()], "a reposted row is not in the status");
    // In one commit, and a letter that dies a second time.
    let both = [(5, Fate::dead("a")), (5, Fate::Reposted), (6, Fate::dead("b")), (6, Fate::Dropped)];
    stand.write(partition, fates(START + 1, both.to_vec())).await?;
    ensure_eq!(numbers(&read(stand, partition, 100).await?), vec![5, 8], "rows that died for a moment");
    stand.write(partition, fates(START + 2, vec![(8, Fate::dead("again"))])).await?;
    let letters = dead(stand, partition, 4).await?;
    let again = letters.iter().map(|it| (it.posted.number, it.reason.as_str(), it.at)).collect::<Vec<_>>();
    ensure_eq!(again, vec![(8, "again", START + 2)], "a letter that died a second time");
    stand.reopen().await?;
    stand.same().await
}

pub async fn rows_of_another_store_get_new_numbers_and_keep_their_order(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let partitions = stand.partitions;
    let here = |number| samples::posted(partitions, partition, number);
    // They come with the numbers that they had there, which are not in order, and one of them twice.
    let mut rows = vec![samples::posted_fully(partitions, partition, 9), here(4), here(2), here(7)];
    rows.extend(stand.each().map(|it| samples::posted(partitions, it, 30)));
    rows.push(here(2));
    let (first, rest) = rows.split_at(2);
    for rows in [first, rest] {
        stand.store.post_all(rows.to_vec()).await.map_err(|error| error.to_string())?;
    }
    let found = read(stand, partition, 100).await?;
    let all: BTreeSet<u64> = found.iter().map(|row| row.number).collect();
    ensure_eq!(all.len(), 6, "different numbers in {:?}", numbers(&found));
    let plain = |row: &Posted| Posted { number: 0, ..row.clone() };
    let came = |row: &&Posted| row.partition(partitions) == partition;
    let want: Vec<Posted> = rows.iter().filter(came).map(plain).collect();
    let got: Vec<Posted> = found.iter().map(plain).collect();
    ensure_eq!(got, want, "the rows, in the order in which they were given");
    for other in stand.each().filter(|it| *it != partition) {
        ensure_eq!(read(stand, other, 100).await?.len(), 1, "rows of {other}");
    }
    ensure_eq!(stand.version(partition).await?, Version::NONE, "the version after rows were posted");
    Ok(())
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
    let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "".into());
    let by = || (actor.clone(), cause.clone());
    let drop = |number| {
        let (actor, cause) = by();
        Command::from(DropLetter { partition, number, actor, cause })
    };
    let repost = |number| {
        let (actor, cause) = by();
        Command::from(RepostLetter { partition, number, actor, cause })
    };
    // Of the last two there is none: dropped before, and never a letter.
    let about = [drop(4), repost(12), drop(40), drop(4), repost(41)];
    let said = engines[0].run(&*stand.store, partition, START, &about).await?;
    ensure_eq!(said, engines[1].run(&stand.reference, partition, START, &about).await?, "answers");
    ensure_eq!(said.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, false, false], "said");
    ensure_eq!(dead(stand, partition, 0).await?.len(), 7, "dead letters that are left");
    ensure_eq!(numbers(&read(stand, partition, 7).await?), vec![12], "the row that is back");
    let counts = stand.store.counts().await.map_err(|error| error.to_string())?;
    ensure_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 30, "executions");
    stand.same().await
}
