//! Versions: the guard of a commit, and what can be asked about commits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ff_core::change::{Changes, Header};
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{CommitId, InstanceId, PartitionId, Route};
use tokio::sync::Barrier;

use super::super::stand::{SERVER, START, ensure_one};
use super::super::{Check, Dump, Stand, ensure, ensure_eq, registry_samples, samples};
use crate::{Commit, Outcome, StoreError, Version, Written};

pub(super) fn committed() -> Outcome {
    Outcome::Committed { now: START }
}

/// Changes that touch every table of a partition, all about record `n`.
pub(super) fn something(stand: &mut Stand, partition: PartitionId, n: u64) -> Changes {
    let id = samples::id(stand.partitions, partition, n);
    let instance = samples::instance(stand.partitions, partition, n);
    let desk = stand.desk(partition);
    let active = samples::with_state(samples::execution(id), samples::states(instance)[2].clone());
    desk.put_execution(active, START);
    let ended = samples::completed(samples::id(desk.partitions, partition, n + 1_000), START + 5);
    desk.put_execution(ended, START);
    let ready = samples::ready(samples::id(desk.partitions, partition, n + 2_000), START, n);
    desk.emit(&ready, START, ff_core::event::Fact::Woken);
    desk.put_execution(ready, START);
    desk.put_lane(samples::lane("other", n));
    desk.put_worker(samples::worker(instance, n));
    let key = DedupKey { namespace: Default::default(), key: format!("key {n}").into() };
    desk.put_dedup(key, Some(Dedup { execution: id, expires_at: START + 9 }));
    desk.put_link(ff_core::message::Link { peer: PartitionId(0), sent: n, received: n });
    desk.put_payload(PayloadKey { execution: id, slot: Slot::Input }, Payload::json("{}"));
    desk.archive_attempt(id, samples::attempt(1, instance));
    desk.put_record(registry_samples::token(&format!("tok_{n}"), n as u8));
    desk.take_batch(START)
}

pub async fn a_fresh_store_is_at_no_version_and_empty(stand: &mut Stand) -> Check {
    let (_, status) = stand.store.status().await.map_err(|error| error.to_string())?;
    ensure_eq!(status.len(), usize::from(stand.partitions), "partitions in the status");
    for (at, status) in status.iter().enumerate() {
        ensure_eq!(status.partition, PartitionId(at as u16), "order of the status");
        ensure_eq!(status.version, Version::NONE, "version in the status");
        ensure_eq!((status.next_event, status.next_due), (1, None), "what a fresh partition has");
    }
    for partition in stand.each() {
        ensure_eq!(stand.version(partition).await?, Version::NONE, "version of a load");
        ensure_eq!(stand.opening(partition).await?, Default::default(), "opening of a fresh partition");
        let written = stand.store.written(partition, 1).await;
        ensure_eq!(written, Ok(Written::Not), "who wrote version 1 of a fresh partition");
    }
    stand.same().await
}

pub async fn the_store_tells_its_time(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for now in [START, START + 1, START + 86_400_000] {
        stand.clock.set(now);
        let loaded = stand.store.load(partition, vec![]).await.map_err(|error| error.to_string())?;
        ensure_eq!(loaded.now, now, "time of a load");
        stand.write(partition, Changes::default()).await?;
        let (told, _) = stand.store.status().await.map_err(|error| error.to_string())?;
        ensure_eq!(told, now, "time of a status");
    }
    Ok(())
}

pub async fn a_commit_is_guarded_by_number(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let first = stand.write(partition, Changes::default()).await?;
    let second = stand.write(partition, Changes::default()).await?;
    let wrong = [
        Version::NONE,
        first,
        Version { number: 1, id: second.id },
        Version { number: 3, id: second.id },
        Version { number: u64::MAX >> 2, id: second.id },
    ];
    for expected in wrong {
        let commit =
            Commit { partition, expected, id: stand.new_id(), by: SERVER, changes: Changes::default() };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit expecting {expected:?}");
    }
    ensure_eq!(stand.version(partition).await?, second, "version after conflicts");
    stand.write(partition, Changes::default()).await.map(drop)
}

pub async fn a_commit_is_guarded_by_the_id_of_the_one_before(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (stranger, id) = (stand.new_id(), stand.new_id());
    for expected in [Version { number: 0, id: stranger }, Version { number: 1, id: stranger }] {
        let commit = Commit { partition, expected, id, by: SERVER, changes: Changes::default() };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit after a stranger's");
        stand.write(partition, Changes::default()).await?;
    }
    ensure_eq!(stand.version(partition).await?.number, 2, "version after conflicts");
    Ok(())
}

pub async fn the_same_commit_is_not_applied_twice(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let changes = something(stand, partition, 1);
    let commit = Commit { partition, expected: Version::NONE, id: stand.new_id(), by: SERVER, changes };
    ensure_eq!(stand.send(commit.clone()).await?, committed(), "the first time");
    let once = Dump::of(&*stand.store).await?;
    ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "the second time");
    Dump::of(&*stand.store).await?.compare(&once)
}

pub async fn a_conflict_writes_nothing_of_any_table(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let changes = something(stand, partition, 1);
        stand.write(partition, changes).await?;
        let changes = something(stand, partition, 2);
        let commit = Commit { partition, expected: Version::NONE, id: stand.new_id(), by: SERVER, changes };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit on an old version");
    }
    stand.same().await
}

pub async fn one_conflict_does_not_fail_the_others_of_its_flush(stand: &mut Stand) -> Check {
    // With one partition the flush holds a conflict and then a commit that is right.
    let stale = PartitionId(0);
    let stranger = stand.new_id();
    let (mut flush, mut want) = (Vec::new(), Vec::new());
    let wrong = Commit {
        partition: stale,
        expected: Version { number: 9, id: stranger },
        id: stand.new_id(),
        by: SERVER,
        changes: something(stand, stale, 1),
    };
    stand.clear_desk(stale);
    for partition in stand.each() {
        let changes = something(stand, partition, 2);
        flush.push(Commit { partition, expected: Version::NONE, id: stand.new_id(), by: SERVER, changes });
        want.push(committed());
    }
    let middle = flush.len() / 2;
    let right = flush.clone();
    flush.insert(middle, wrong);
    want.insert(middle, Outcome::Conflict);
    ensure_eq!(stand.store.commit(flush).await, want, "outcomes of the flush");
    stand.reference.edit(|state| state.commit_all(right, START));
    stand.same().await
}

pub async fn a_chain_of_commits_can_be_sent_without_waiting(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut expected = Version::NONE;
    let mut chain = Vec::new();
    for n in 1..=5 {
        let (id, changes) = (stand.new_id(), something(stand, partition, n));
        chain.push(Commit { partition, expected, id, by: SERVER, changes });
        expected = Version { number: n, id };
    }
    stand.reference.edit(|state| state.commit_all(chain.clone(), START));
    // The first two in one flush, the others in flushes of their own, all sent before any answer.
    let (head, mut tail) = (chain[..2].to_vec(), chain[2..].iter().cloned());
    let mut next = || tail.next().into_iter().collect::<Vec<_>>();
    let (third, fourth, fifth) = (next(), next(), next());
    let store = &stand.store;
    let outcomes =
        tokio::join!(store.commit(head), store.commit(third), store.commit(fourth), store.commit(fifth));
    ensure_eq!(outcomes.0, vec![committed(), committed()], "two commits of a chain in one flush");
    ensure_eq!((outcomes.1, outcomes.2), (vec![committed()], vec![committed()]), "the next of the chain");
    ensure_eq!(outcomes.3, vec![committed()], "the last of the chain");
    stand.same().await?;
    // A chain whose first link does not hold does not hold at all.
    let (first, second) = (stand.new_id(), stand.new_id());
    let changes = Changes::default();
    let broken = vec![
        Commit { partition, expected: Version::NONE, id: first, by: SERVER, changes: changes.clone() },
        Commit { partition, expected: Version { number: 1, id: first }, id: second, by: SERVER, changes },
    ];
    let conflicts = vec![Outcome::Conflict, Outcome::Conflict];
    ensure_eq!(stand.store.commit(broken).await, conflicts, "a chain on an old version");
    stand.same().await
}

pub async fn an_empty_commit_makes_a_version(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for number in 1..=3 {
        let version = stand.write(partition, Changes::default()).await?;
        ensure_eq!(version.number, number, "number of an empty commit");
        ensure_eq!(stand.version(partition).await?, version, "version after an empty commit");
    }
    ensure_eq!(stand.store.commit(vec![]).await, vec![], "an empty flush");
    stand.same().await
}

/// What each version of [`a_load_is_answered_at_one_version`] writes: its number, three times.
fn marked(number: u64, instance: InstanceId) -> Changes {
    let header = Header { next_event: number + 1, ..Header::default() };
    let lane = Arc::new(samples::lane("marked", number));
    let worker = Arc::new(samples::worker(instance, number));
    Changes {
        header,
        lanes: vec![(lane.name.clone(), Some(lane))],
        workers: vec![(instance, Some(worker))],
        ..Changes::default()
    }
}

/// Checks one load made while others write, and returns its version.
async fn load_marked(stand: &Stand, instance: InstanceId) -> Result<u64, String> {
    let lane = Key::Lane(samples::lane_name("marked"));
    let asks = vec![Ask::Record(lane), Ask::Opening, Ask::Record(Key::Worker(instance))];
    let loaded = stand.store.load(stand.last(), asks).await.map_err(|error| error.to_string())?;
    let number = loaded.version.number;
    ensure_eq!(loaded.answers.len(), 3, "answers to three asks");
    for answer in &loaded.answers {
        let seen = match answer {
            Answer::Lane(_, Some(lane)) => lane.revision,
            Answer::Worker(_, Some(worker)) => worker.revision,
            Answer::Opening(opening) => opening.header.next_event - 1,
            other => return Err(format!("a record is missing: {other:?}")),
        };
        ensure_eq!(seen, number, "version of an answer in a load at {number}");
    }
    Ok(number)
}

pub async fn a_load_is_answered_at_one_version(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let mut expected = stand.write(partition, marked(1, instance)).await?;
    let enough = Arc::new(AtomicBool::new(false));
    let (store, stop) = (stand.store.clone(), enough.clone());
    let writer = tokio::spawn(async move {
        while !stop.load(Ordering::SeqCst) {
            let id = CommitId::from_parts(START, Route(1), expected.number);
            let changes = marked(expected.number + 1, instance);
            let outcomes = store.commit(vec![Commit { partition, expected, id, by: SERVER, changes }]).await;
            ensure_eq!(outcomes, vec![committed()], "a commit of the only writer");
            expected = Version { number: expected.number + 1, id };
            tokio::task::yield_now().await;
        }
        Ok(())
    });
    // Until the writer has been met at many versions, however the two take turns.
    let mut versions = BTreeSet::new();
    let mut read = Ok(());
    while versions.len() < 60 && read.is_ok() && !writer.is_finished() {
        read = load_marked(stand, instance).await.map(|number| versions.extend([number]));
        tokio::task::yield_now().await;
    }
    enough.store(true, Ordering::SeqCst);
    writer.await.map_err(|error| error.to_string())??;
    read
}

/// Four handles send a commit for the same version at once, as four servers do. They run either in turns in
/// one task or, released together, in tasks of their own: each finds races that the other may not.
async fn race(stand: &mut Stand, expected: Version, apart: bool) -> Result<Vec<(CommitId, Outcome)>, String> {
    let partition = stand.last();
    let start = Arc::new(Barrier::new(4));
    let mut racers = Vec::new();
    for _ in 0..4 {
        let (store, id, start) = (stand.another().await?, stand.new_id(), start.clone());
        racers.push(async move {
            start.wait().await;
            let commit = Commit { partition, expected, id, by: SERVER, changes: Changes::default() };
            let outcome = ensure_one(store.commit(vec![commit]).await);
            store.close().await;
            outcome.map(|outcome| (id, outcome))
        });
    }
    if apart {
        let tasks: Vec<_> = racers.into_iter().map(tokio::spawn).collect();
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await.map_err(|error| error.to_string())??);
        }
        return Ok(ends);
    }
    let mut racers = racers.into_iter().map(Box::pin);
    let mut next = || racers.next().ok_or("there are four");
    let (a, b, c, d) = tokio::join!(next()?, next()?, next()?, next()?);
    Ok(vec![a?, b?, c?, d?])
}

pub async fn racing_commits_have_one_winner(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for round in 0..20 {
        let expected = stand.version(partition).await?;
        ensure_eq!(expected.number, round, "version after {round} races");
        let ends = race(stand, expected, round % 2 == 1).await?;
        let (won, lost): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(_, it)| *it == committed());
        ensure!(lost.iter().all(|(_, it)| *it == Outcome::Conflict), "those who lost: {lost:?}");
        ensure_eq!(won.len(), 1, "winners of a race");
        ensure_eq!(stand.version(partition).await?.id, won[0].0, "who wrote the version raced for");
    }
    Ok(())
}

pub async fn a_partition_that_does_not_exist_is_refused(stand: &mut Stand) -> Check {
    let partition = PartitionId(stand.partitions);
    let id = stand.new_id();
    let commit = Commit { partition, expected: Version::NONE, id, by: SERVER, changes: Changes::default() };
    let load = stand.store.load(partition, vec![Ask::Opening]).await;
    ensure!(matches!(load, Err(StoreError::Refused(_))), "a load of partition {partition}: {load:?}");
    let outcome = stand.send(commit).await?;
    let refused = matches!(outcome, Outcome::Failed(StoreError::Refused(_)));
    ensure!(refused, "a commit to partition {partition}: {outcome:?}");
    Ok(())
}
