//! Group commit: many commits in one transaction, each alone in what it does and in how it fails.

use std::sync::Arc;

use ff_core::change::ExecutionChange;
use ff_core::key::{Ask, Key};
use ff_core::workspace::Answer;
use ff_core::{CommitId, ExecutionId, PartitionId, Route, ServerId};
use ff_store::{Commit, Outcome, Store, StoreError, Version, Written};
use ff_store_sqlite::{Options, SqliteStore};

use crate::desk::Desk;

fn open(folder: &tempfile::TempDir, partitions: u16) -> SqliteStore {
    let options = Options { partitions: Some(partitions), ..Options::default() };
    SqliteStore::open(folder.path().join("a.db"), options).unwrap()
}

async fn found(store: &SqliteStore, partition: u16, id: ExecutionId) -> bool {
    let asks = vec![Ask::Record(Key::Execution(id))];
    match store.load(PartitionId(partition), asks).await.unwrap().answers.as_slice() {
        [Answer::Execution(_, found)] => found.is_some(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn successors_may_be_sent_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 1);
    let mut desk = Desk::new(0, 1);
    let mut sent = Vec::new();
    for _ in 0..50 {
        desk.create();
        sent.push(store.commit(vec![desk.commit()]));
    }
    // Awaited in the wrong order: the order of calls counts, not that of polls.
    for outcome in sent.into_iter().rev() {
        assert!(matches!(outcome.await.as_slice(), [Outcome::Committed { .. }]));
    }
    assert_eq!(store.load(PartitionId(0), vec![]).await.unwrap().version, desk.version);
    let stats = store.stats();
    assert_eq!((stats.commits, stats.rows), (50, 150));
    assert!(stats.transactions <= 50 && stats.wal_bytes > 0 && stats.statements > 150, "{stats:?}");
}

#[tokio::test]
async fn a_successor_of_a_conflict_conflicts_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 2);
    let (mut desk, mut other) = (Desk::new(0, 2), Desk::new(1, 2));
    let mut stranger = Desk::new(0, 2);
    stranger.flush(&store).await;
    let lost = desk.create();
    let mut commits = vec![desk.commit()];
    desk.create();
    commits.push(desk.commit());
    let kept = other.create();
    commits.push(other.commit());
    let outcomes = store.commit(commits).await;
    assert_eq!(outcomes[..2], [Outcome::Conflict, Outcome::Conflict]);
    assert!(matches!(outcomes[2], Outcome::Committed { .. }));
    assert!(!found(&store, 0, lost).await);
    assert!(found(&store, 1, kept).await);
    // The same number with another id is another history.
    let id = CommitId::from_parts(1, Route(0), 1);
    let expected = Version { number: 1, id };
    let commit = Commit {
        partition: PartitionId(0),
        expected,
        id,
        by: ServerId::from_parts(0, Route(0), 1),
        changes: Default::default(),
    };
    assert_eq!(store.commit(vec![commit]).await, [Outcome::Conflict]);
}

#[tokio::test]
async fn a_record_that_is_refused_does_not_fail_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 3);
    let mut desks: Vec<Desk> = (0..3).map(|at| Desk::new(at, 3)).collect();
    let ids: Vec<ExecutionId> = desks.iter_mut().map(Desk::create).collect();
    let mut commits: Vec<Commit> = desks.iter_mut().map(Desk::commit).collect();
    // The same execution twice: the second insert breaks a rule of the table.
    let twice = commits[1].changes.executions[0].clone();
    commits[1].changes.executions.push(twice);
    let outcomes = store.commit(commits).await;
    assert!(matches!(outcomes[0], Outcome::Committed { .. }), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Failed(StoreError::Refused(_))), "{outcomes:?}");
    assert!(matches!(outcomes[2], Outcome::Committed { .. }), "{outcomes:?}");
    assert!(found(&store, 0, ids[0]).await && found(&store, 2, ids[2]).await);
    assert!(!found(&store, 1, ids[1]).await);
    assert_eq!(store.written(PartitionId(1), 1).await.unwrap(), Written::Not);
    assert_eq!(store.stats().failures, 1);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_update_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 1);
    let mut desk = Desk::new(0, 1);
    desk.create();
    let mut commit = desk.commit();
    let ExecutionChange::Insert(execution) = commit.changes.executions.remove(0) else { panic!() };
    commit.changes.executions.push(ExecutionChange::Update(Arc::clone(&execution)));
    let outcomes = store.commit(vec![commit]).await;
    assert!(matches!(outcomes[0], Outcome::Failed(StoreError::Refused(_))), "{outcomes:?}");
}

#[tokio::test]
async fn a_partition_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 2);
    let outcomes = store.commit(vec![Desk::new(2, 3).commit(), Desk::new(1, 2).commit()]).await;
    assert!(matches!(outcomes[0], Outcome::Failed(StoreError::Refused(_))), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Committed { .. }), "{outcomes:?}");
    assert!(matches!(store.load(PartitionId(2), vec![]).await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn a_whole_life_leaves_the_lists_empty() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 1);
    let mut desk = Desk::new(0, 1);
    let instance = desk.worker();
    for _ in 0..20 {
        desk.create();
    }
    desk.flush(&store).await;
    let fences = desk.claim(instance, 20);
    desk.flush(&store).await;
    let leases = match store.load(PartitionId(0), vec![Ask::Opening]).await.unwrap().answers.remove(0) {
        Answer::Opening(opening) => opening.leases,
        other => panic!("{other:?}"),
    };
    assert_eq!(leases.len(), 20);
    fences.into_iter().for_each(|fence| desk.complete(fence));
    desk.flush(&store).await;
    let raw = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM ready"), 0);
    assert_eq!(count("SELECT count(*) FROM agenda WHERE kind = 'timer'"), 0);
    assert_eq!(count("SELECT count(*) FROM executions WHERE holder IS NOT NULL"), 0);
    assert_eq!(count("SELECT count(*) FROM ended"), 20);
    assert_eq!(count("SELECT count(*) FROM payloads_view WHERE json = '\"done\"'"), 20);
    assert_eq!(count("SELECT count(*) FROM executions_view WHERE state = 'completed'"), 20);
    assert_eq!(count("SELECT count(*) FROM events_view WHERE event = 'completed'"), 20);
    assert_eq!(count("SELECT max(number) FROM events_view"), desk.workspace.header().next_event as i64 - 1);
}
