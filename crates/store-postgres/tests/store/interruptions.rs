//! A commit that PostgreSQL cuts off, in every way it can: the answer says whether it may have happened, the same
//! commit can be sent again, and it is written once.

use std::sync::Arc;

use ff_core::commands::{Create, decide};
use ff_core::limits::Limits;
use ff_core::workspace::{Answer, Opening};
use ff_core::{CommitId, ExecutionId, Kind, Ms, PartitionId, Payload, Route, ServerId, Workspace};
use ff_scratch::{Database, Session, until_blocked};
use ff_store::{Commit, Outcome, Store, StoreError, Version, Written};
use ff_store_postgres::PostgresStore;

use super::{database, open, sql};

const AT: Ms = 1_800_000_000_000;
const PARTITION: PartitionId = PartitionId(0);
const LOCK_EXECUTIONS: &str = "BEGIN; LOCK TABLE flowfabric.executions IN ACCESS EXCLUSIVE MODE";

/// The first commit of a store's only partition: one submission.
fn submission() -> Commit {
    first_commit(PARTITION, 1)
}

/// The first commit of a partition: one submission.
pub(crate) fn first_commit(partition: PartitionId, partitions: u16) -> Commit {
    let mut workspace = Workspace::new(partition, partitions, Arc::new(Limits::default()));
    workspace.learn(Answer::Opening(Box::<Opening>::default()));
    let route = Route(partition.0);
    let id = ExecutionId::from_parts(AT, route, 1);
    workspace.learn(Answer::Execution(id, None));
    let create = Create::new(id, Kind::parse("charge").expect("a kind"), Payload::json("{}"));
    decide(&mut workspace, AT, &create.into()).expect("nothing forbids it");
    let changes = workspace.take_batch(AT);
    let (id, by) = (CommitId::from_parts(AT, route, 1), ServerId::from_parts(AT, Route(0), 1));
    Commit { partition, expected: Version::NONE, id, by, changes }
}

/// A store of one partition; `setting` holds for every connection it makes from now on.
async fn ground(setting: &str) -> (Database, PostgresStore) {
    let database = database();
    let store = open(&format!("{}?partitions=1", database.url())).await.expect("a store");
    if !setting.is_empty() {
        sql(&database.url(), &format!("ALTER DATABASE {} SET {setting}", database.name()));
    }
    (database, store)
}

fn unavailable(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(StoreError::Unavailable(text)) => text,
        other => panic!("nothing was written, and trying again can help: {other:?}"),
    }
}

/// Sent again, the commit is written; sent once more, it is not.
async fn is_written_once(url: &str, store: &PostgresStore, commit: Commit) {
    assert_eq!(store.written(PARTITION, 1).await, Ok(Written::Not));
    assert_eq!(sql(url, "SELECT count(*) FROM flowfabric.executions"), "0");
    let outcome = store.commit(vec![commit.clone()]).await.remove(0);
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    assert_eq!(store.commit(vec![commit.clone()]).await, [Outcome::Conflict]);
    assert_eq!(store.written(PARTITION, 1).await, Ok(Written::By(commit.id)));
    assert_eq!(sql(url, "SELECT count(*) FROM flowfabric.executions"), "1");
    assert_eq!(sql(url, "SELECT count(*) FROM flowfabric.commits"), "1");
}

#[tokio::test]
async fn a_commit_that_runs_into_statement_timeout_is_not_written_and_can_be_sent_again() {
    let (database, store) = ground("statement_timeout = '100ms'").await;
    let url = database.url();
    let mut other = Session::open(&url).unwrap();
    other.run(&format!("SET statement_timeout = 0; {LOCK_EXECUTIONS}")).unwrap();
    let outcome = store.commit(vec![submission()]).await.remove(0);
    assert!(unavailable(&outcome).contains("statement_timeout"), "{outcome:?}");
    // A question is cut off as well, and says so.
    let id = ExecutionId::from_parts(AT, Route(0), 1);
    let asks = vec![ff_core::key::Ask::Record(ff_core::key::Key::Execution(id))];
    match store.load(PARTITION, asks).await {
        Err(StoreError::Unavailable(text)) => assert!(text.contains("statement_timeout"), "{text}"),
        other => panic!("{other:?}"),
    }
    other.run("ROLLBACK").unwrap();
    is_written_once(&url, &store, submission()).await;
}

/// The commit closes the circle and looks for one at once; the others would look in an hour.
#[tokio::test]
async fn a_commit_that_is_the_victim_of_a_deadlock_is_not_written_and_can_be_sent_again() {
    let (database, store) = ground("deadlock_timeout = '10ms'").await;
    let url = database.url();
    let session = || {
        let mut session = Session::open(&url).unwrap();
        session.run("SET deadlock_timeout = '1h'; BEGIN").unwrap();
        session
    };
    let (mut first, mut second) = (session(), session());
    // The commit waits at its first table, and somebody who has its second one waits behind it.
    first.run("LOCK TABLE flowfabric.commits IN ACCESS EXCLUSIVE MODE").unwrap();
    second.run("LOCK TABLE flowfabric.executions IN ACCESS EXCLUSIVE MODE").unwrap();
    let commit = store.commit(vec![submission()]);
    until_blocked(&url, 1).unwrap();
    second.start("LOCK TABLE flowfabric.commits IN ACCESS EXCLUSIVE MODE").unwrap();
    until_blocked(&url, 2).unwrap();
    first.run("ROLLBACK").unwrap();
    let outcome = commit.await.remove(0);
    assert!(unavailable(&outcome).contains("deadlock"), "{outcome:?}");
    second.finish().unwrap();
    second.run("ROLLBACK").unwrap();
    is_written_once(&url, &store, submission()).await;
}

/// Where transactions are serializable by default, a commit that loses the race for a version may hear of it as an
/// error. Nothing is written then, and sent again it conflicts as everywhere else.
#[tokio::test]
async fn a_commit_that_cannot_be_serialized_is_not_written_and_conflicts_when_it_is_sent_again() {
    let (database, store) = ground("default_transaction_isolation = 'serializable'").await;
    let url = database.url();
    let winner = "INSERT INTO flowfabric.commits (partition, number, id, previous_id, at_ms, next_event, now_ms, next_due) \
                  VALUES (0, 1, gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 1, 1, 1, 1)";
    let mut other = Session::open(&url).unwrap();
    other.run(&format!("BEGIN; {winner}")).unwrap();
    let commit = store.commit(vec![submission()]);
    until_blocked(&url, 1).unwrap();
    other.run("COMMIT").unwrap();
    let outcome = commit.await.remove(0);
    assert!(unavailable(&outcome).contains("serialize"), "{outcome:?}");
    assert_eq!(store.commit(vec![submission()]).await, [Outcome::Conflict]);
    assert_eq!(sql(&url, "SELECT count(*) FROM flowfabric.executions"), "0");
    assert_eq!(sql(&url, "SELECT count(*) FROM flowfabric.commits"), "1");

    // And with the race lost by the other one, it is written as everywhere else.
    sql(&url, "DELETE FROM flowfabric.commits");
    other.run(&format!("BEGIN; {winner}")).unwrap();
    let commit = store.commit(vec![submission()]);
    until_blocked(&url, 1).unwrap();
    other.run("ROLLBACK").unwrap();
    let outcome = commit.await.remove(0);
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    assert_eq!(store.written(PARTITION, 1).await, Ok(Written::By(submission().id)));
}

#[tokio::test]
async fn a_commit_whose_connection_is_ended_may_have_happened_and_the_store_can_tell() {
    let (database, store) = ground("").await;
    let url = database.url();
    let mut other = Session::open(&url).unwrap();
    other.run(LOCK_EXECUTIONS).unwrap();
    let commit = store.commit(vec![submission()]);
    until_blocked(&url, 1).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    assert_eq!(sql(&url, end), "t");
    let outcome = commit.await.remove(0);
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    other.run("ROLLBACK").unwrap();
    is_written_once(&url, &store, submission()).await;
}
