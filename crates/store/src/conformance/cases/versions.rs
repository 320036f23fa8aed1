//! Versions: the guard of a commit, and what can be asked about commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::change::{Changes, Header};
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{CommitId, PartitionId};

use super::super::stand::START;
use super::super::{Check, Dump, Stand, ensure, ensure_eq, samples};
use crate::{Commit, Missed, Outcome, StoreError, Version, Written};

fn committed() -> Outcome {
    Outcome::Committed { now: START }
}

/// Changes that touch every table of a partition, all about record `n`.
fn something(stand: &mut Stand, partition: PartitionId, n: u64) -> Changes {
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
        let commit = Commit { partition, expected, id: stand.new_id(), changes: Changes::default() };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit expecting {expected:?}");
    }
    ensure_eq!(stand.version(partition).await?, second, "version after conflicts");
    stand.write(partition, Changes::default()).await.map(drop)
}

pub async fn a_commit_is_guarded_by_the_id_of_the_one_before(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (stranger, id) = (stand.new_id(), stand.new_id());
    for expected in [Version { number: 0, id: stranger }, Version { number: 1, id: stranger }] {
        let commit = Commit { partition, expected, id, changes: Changes::default() };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit after a stranger's");
        stand.write(partition, Changes::default()).await?;
    }
    ensure_eq!(stand.version(partition).await?.number, 2, "version after conflicts");
    Ok(())
}

pub async fn the_same_commit_is_not_applied_twice(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let changes = something(stand, partition, 1);
    let commit = Commit { partition, expected: Version::NONE, id: stand.new_id(), changes };
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
        let commit = Commit { partition, expected: Version::NONE, id: stand.new_id(), changes };
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
        changes: something(stand, stale, 1),
    };
    stand.clear_desk(stale);
    for partition in stand.each() {
        let changes = something(stand, partition, 2);
        flush.push(Commit { partition, expected: Version::NONE, id: stand.new_id(), changes });
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
        chain.push(Commit { partition, expected, id, changes });
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
        Commit { partition, expected: Version::NONE, id: first, changes: changes.clone() },
        Commit { partition, expected: Version { number: 1, id: first }, id: second, changes },
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

pub async fn written_tells_who_wrote_a_version(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let first = stand.write(partition, Changes::default()).await?;
        let second = stand.write(partition, Changes::default()).await?;
        let lost = Commit { partition, expected: first, id: stand.new_id(), changes: Changes::default() };
        ensure_eq!(stand.send(lost).await?, Outcome::Conflict, "a commit on an old version");
        let want =
            [(1, Written::By(first.id)), (2, Written::By(second.id)), (3, Written::Not), (99, Written::Not)];
        for (number, want) in want {
            let got = stand.store.written(partition, number).await;
            ensure_eq!(got, Ok(want), "who wrote version {number}");
        }
    }
    Ok(())
}

pub async fn written_is_kept_for_a_thousand_versions(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut versions = Vec::new();
    let mut expected = Version::NONE;
    // Each commit an hour after the one before, so that only the number of versions keeps them.
    for _ in 0..11 {
        let mut flush = Vec::new();
        for _ in 0..100 {
            let id = stand.new_id();
            flush.push(Commit { partition, expected, id, changes: Changes::default() });
            expected = Version { number: expected.number + 1, id };
            versions.push(expected);
        }
        let all_committed = vec![Outcome::Committed { now: stand.now() }; 100];
        ensure_eq!(stand.store.commit(flush).await, all_committed, "a flush of a hundred");
        stand.clock.advance(3_600_001);
    }
    for version in &versions[100..] {
        let got = stand.store.written(partition, version.number).await;
        ensure_eq!(got, Ok(Written::By(version.id)), "who wrote version {}", version.number);
    }
    let oldest = stand.store.written(partition, 1).await;
    let known = [Ok(Written::Forgotten), Ok(Written::By(versions[0].id))];
    ensure!(known.contains(&oldest), "who wrote version 1: got {oldest:?}");
    Ok(())
}

async fn missed(stand: &Stand, partition: PartitionId, number: u64) -> Result<Option<BTreeSet<Key>>, String> {
    match stand.store.missed(partition, number).await {
        Ok(Missed::Keys(keys)) => Ok(Some(keys.into_iter().collect())),
        Ok(Missed::Everything) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

pub async fn missed_names_the_records_that_changed(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (mut changed, mut since) = (Vec::new(), BTreeSet::new());
    for n in 1..=5 {
        let changes = something(stand, partition, n);
        changed.push(changes.keys());
        stand.write(partition, changes).await?;
    }
    for number in (0..=5).rev() {
        ensure_eq!(missed(stand, partition, number).await?, Some(since.clone()), "missed since {number}");
        since.extend(changed.pop().into_iter().flatten());
    }
    // What is removed has changed, too.
    let removed = samples::id(stand.partitions, partition, 1_001);
    stand.desk(partition).purge_execution(removed);
    stand.flush(partition).await?;
    let keys = Some(BTreeSet::from([Key::Execution(removed)]));
    ensure_eq!(missed(stand, partition, 5).await?, keys, "missed after a removal");
    Ok(())
}

pub async fn missed_gives_up_after_a_hundred_commits_or_ten_thousand_keys(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for _ in 0..101 {
        stand.write(partition, Changes::default()).await?;
    }
    ensure_eq!(missed(stand, partition, 1).await?, Some(BTreeSet::new()), "missed over 100 commits");
    ensure_eq!(missed(stand, partition, 0).await?, None, "missed over 101 commits");
    let key = |n| DedupKey { namespace: Default::default(), key: format!("{n}").into() };
    let changes =
        Changes { dedup: (0..10_000).map(|n| (key(n), None)).collect::<Vec<_>>(), ..Changes::default() };
    let keys = changes.keys().into_iter().collect();
    stand.write(partition, changes).await?;
    ensure_eq!(missed(stand, partition, 101).await?, Some(keys), "missed over 10,000 keys");
    stand.write(partition, Changes { dedup: vec![(key(10_000), None)], ..Changes::default() }).await?;
    ensure_eq!(missed(stand, partition, 101).await?, None, "missed over 10,001 keys");
    ensure_eq!(missed(stand, partition, 102).await?.map(|it| it.len()), Some(1), "missed over one key");
    Ok(())
}

/// What each version of [`a_load_is_answered_at_one_version`] writes: its number, three times.
fn marked(number: u64, instance: ff_core::InstanceId) -> Changes {
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

pub async fn a_load_is_answered_at_one_version(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let mut expected = stand.write(partition, marked(1, instance)).await?;
    let ids: Vec<CommitId> = (0..200).map(|_| stand.new_id()).collect();
    let store = stand.store.clone();
    let writer = tokio::spawn(async move {
        for id in ids {
            let changes = marked(expected.number + 1, instance);
            let outcomes = store.commit(vec![Commit { partition, expected, id, changes }]).await;
            ensure_eq!(outcomes, vec![committed()], "a commit of the only writer");
            expected = Version { number: expected.number + 1, id };
            tokio::task::yield_now().await;
        }
        Ok(())
    });
    let name = samples::lane_name("marked");
    while !writer.is_finished() {
        let (lane, worker) = (Key::Lane(name.clone()), Key::Worker(instance));
        let asks = vec![Ask::Record(lane), Ask::Opening, Ask::Record(worker)];
        let loaded = stand.store.load(partition, asks).await.map_err(|error| error.to_string())?;
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
        tokio::task::yield_now().await;
    }
    writer.await.map_err(|error| error.to_string())?
}

pub async fn racing_commits_have_one_winner(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for round in 0..20 {
        let expected = stand.version(partition).await?;
        ensure_eq!(expected.number, round, "version after {round} races");
        let mut racers = Vec::new();
        for _ in 0..4 {
            let (store, id) = (stand.another().await?, stand.new_id());
            racers.push(tokio::spawn(async move {
                let commit = Commit { partition, expected, id, changes: Changes::default() };
                let outcomes = store.commit(vec![commit]).await;
                store.close().await;
                (id, outcomes)
            }));
        }
        let mut winners = Vec::new();
        for racer in racers {
            match racer.await.map_err(|error| error.to_string())? {
                (id, outcomes) if outcomes == [committed()] => winners.push(id),
                (_, outcomes) => ensure_eq!(outcomes, vec![Outcome::Conflict], "a racer that lost"),
            }
        }
        ensure_eq!(winners.len(), 1, "winners of a race");
        ensure_eq!(stand.version(partition).await?.id, winners[0], "who wrote the version raced for");
    }
    Ok(())
}

pub async fn a_partition_that_does_not_exist_is_refused(stand: &mut Stand) -> Check {
    let partition = PartitionId(stand.partitions);
    let id = stand.new_id();
    let commit = Commit { partition, expected: Version::NONE, id, changes: Changes::default() };
    let load = stand.store.load(partition, vec![Ask::Opening]).await;
    ensure!(matches!(load, Err(StoreError::Refused(_))), "a load of partition {partition}: {load:?}");
    let outcome = stand.send(commit).await?;
    let refused = matches!(outcome, Outcome::Failed(StoreError::Refused(_)));
    ensure!(refused, "a commit to partition {partition}: {outcome:?}");
    Ok(())
}
