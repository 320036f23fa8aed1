//! A disk that is full and a file that is locked: a clear answer, nothing written, and it works again.

use std::time::Duration;

use ff_core::PartitionId;
use ff_store::{Outcome, Store, StoreError};
use ff_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

use crate::desk::Desk;

#[tokio::test]
async fn a_full_disk_is_unavailable_and_works_again_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let small = Options { bytes_max: Some(400_000), ..Options::default() };
    let store = SqliteStore::open(&path, small).unwrap();
    let mut desk = Desk::new(0, 1);
    let refused = loop {
        let version = desk.version;
        (0..100).for_each(|_| _ = desk.create());
        let commit = desk.commit();
        match store.commit(vec![commit.clone()]).await.remove(0) {
            Outcome::Committed { .. } => {}
            Outcome::Failed(StoreError::Unavailable(text)) => {
                assert!(text.contains("full") && text.contains("a.db"), "{text}");
                assert_eq!(store.load(PartitionId(0), vec![]).await.unwrap().version, version);
                break commit;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(store.commit(vec![refused.clone()]).await[0], Outcome::Failed(_)));
    // The limit belongs to the handle; another one stands for a disk with room again.
    let roomy = SqliteStore::open(&path, Options::default()).unwrap();
    assert!(matches!(roomy.commit(vec![refused]).await[0], Outcome::Committed { .. }));
    assert_eq!(roomy.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_locked_file_is_unavailable_and_works_again_when_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let options = Options { busy_timeout: Duration::from_millis(20), ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let commit = Desk::new(0, 1).commit();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    match store.commit(vec![commit.clone()]).await.remove(0) {
        Outcome::Failed(StoreError::Unavailable(text)) => {
            assert!(text.contains("locked") && text.contains("a.db"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    // Readers do not mind.
    assert!(store.status().await.is_ok());
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(store.commit(vec![commit]).await[0], Outcome::Committed { .. }));
}

#[tokio::test]
async fn a_row_that_means_nothing_is_reported_not_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let mut desk = Desk::new(0, 1);
    desk.create();
    desk.flush(&store).await;
    let raw = Connection::open(&path).unwrap();
    assert!(raw.execute("UPDATE executions SET state = 'banana'", []).is_err(), "unknown words are refused");
    raw.execute("UPDATE executions SET live = '{}'", []).unwrap();
    match store.executions(crate::reading::everything()).await {
        Err(StoreError::Unusable(text)) => assert!(text.contains("live") && text.contains("a.db"), "{text}"),
        other => panic!("{other:?}"),
    }
}
