//! The commit log: who wrote which version.

use ff_core::change::Changes;

use super::super::stand::SERVER;
use super::super::{Check, Stand, ensure, ensure_eq};
use crate::{Commit, Outcome, Version, Written};

pub async fn written_tells_who_wrote_a_version(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let first = stand.write(partition, Changes::default()).await?;
        let second = stand.write(partition, Changes::default()).await?;
        let lost = Commit {
            partition,
            expected: first,
            id: stand.new_id(),
            by: SERVER,
            changes: Changes::default(),
        };
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
            flush.push(Commit { partition, expected, id, by: SERVER, changes: Changes::default() });
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
