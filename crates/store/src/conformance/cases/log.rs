//! The commit log: who wrote which version, and what was missed since.

use std::collections::BTreeSet;

use ff_core::PartitionId;
use ff_core::change::Changes;
use ff_core::key::{DedupKey, Key};

use super::super::{Check, Stand, ensure, ensure_eq, samples};
use super::versions::something;
use crate::{Commit, Missed, Outcome, Version, Written};

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
