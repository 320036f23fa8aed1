//! Many commits in one call, each alone in how it fails.

use ff_core::PartitionId;
use ff_store::{Commit, Outcome, Store, StoreError, Written};

use super::interruptions::first_commit;
use super::{database, open, sql};

/// Commits of one connection that are sent while others are on their way become one call. Whatever is wrong with
/// one of them, the others are written.
#[tokio::test]
async fn a_record_that_is_refused_does_not_fail_the_others() {
    let database = database();
    let store = open(&format!("{}?partitions=6", database.url())).await.expect("a store");
    let mut commits: Vec<Commit> = (0..6).map(|n| first_commit(PartitionId(n), 6)).collect();
    // The same execution twice: the second insert breaks a rule of the table.
    let twice = commits[2].changes.executions[0].clone();
    commits[2].changes.executions.push(twice);
    let outcomes = store.commit(commits).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        match n {
            2 => assert!(matches!(outcome, Outcome::Failed(StoreError::Refused(_))), "{outcome:?}"),
            _ => assert!(matches!(outcome, Outcome::Committed { .. }), "{n}: {outcome:?}"),
        }
    }
    assert_eq!(store.written(PartitionId(2), 1).await, Ok(Written::Not));
    assert_eq!(sql(&database.url(), "SELECT count(*) FROM flowfabric.executions"), "5");
}

/// However many are sent at once without waiting, a partition's commits are written in their order.
#[tokio::test]
async fn commits_that_wait_for_each_other_are_written_in_order() {
    let database = database();
    let store = open(&format!("{}?partitions=4", database.url())).await.expect("a store");
    let mut sent = Vec::new();
    let mut newest: Vec<Commit> = (0..4).map(|n| first_commit(PartitionId(n), 4)).collect();
    for round in 2..=20 {
        sent.extend(newest.iter().map(|commit| store.commit(vec![commit.clone()])));
        for commit in &mut newest {
            let expected = ff_store::Version { number: commit.expected.number + 1, id: commit.id };
            let id = ff_core::CommitId::from_parts(1, ff_core::Route(commit.partition.0), round);
            let changes = ff_core::change::Changes { header: commit.changes.header, ..Default::default() };
            *commit = Commit { expected, id, changes, ..commit.clone() };
        }
    }
    for outcome in sent.into_iter().rev() {
        assert!(matches!(outcome.await.as_slice(), [Outcome::Committed { .. }]));
    }
    assert_eq!(sql(&database.url(), "SELECT count(*) FROM flowfabric.commits"), "76");
}
