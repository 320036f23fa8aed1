//! Opening: new files, other people's files, damaged files, copies.

use std::path::Path;

use ff_store::{Store, StoreError};
use ff_store_sqlite::{Options, SqliteStore, Synchronous};
use rusqlite::Connection;

use crate::desk::Desk;

fn with_partitions(partitions: u16) -> Options {
    Options { partitions: Some(partitions), ..Options::default() }
}

/// The error of opening, which must be final and name the file.
fn refused(path: &Path) -> String {
    match SqliteStore::open(path, Options::default()) {
        Err(StoreError::Unusable(text)) => {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(name), "{text}");
            text
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_keeps_its_id_and_its_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let first = SqliteStore::open(&path, with_partitions(3)).unwrap().info();
    assert_eq!((first.kind, first.partitions), ("sqlite", 3));
    assert_eq!(SqliteStore::open(&path, Options::default()).unwrap().info(), first);
    assert_eq!(SqliteStore::open(&path, with_partitions(3)).unwrap().info(), first);
    let text = SqliteStore::open(&path, with_partitions(8)).unwrap_err().to_string();
    assert!(text.contains("3 partitions") && text.contains('8'), "{text}");
    let other = SqliteStore::open(folder.path().join("b.db"), Options::default()).unwrap().info();
    assert_ne!(other.id, first.id);
    assert_eq!(other.partitions, 1);
}

#[test]
fn every_way_of_flushing_opens() {
    for synchronous in [Synchronous::Full, Synchronous::Normal, Synchronous::Off] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { synchronous, ..Options::default() };
        SqliteStore::open(folder.path().join("a.db"), options).unwrap();
    }
}

#[test]
fn files_that_are_not_ours_are_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("letter.txt");
    std::fs::write(&text, "Dear database, ".repeat(100)).unwrap();
    assert!(refused(&text).contains("not an SQLite database"));

    let other = folder.path().join("photos.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE photos (name TEXT)").unwrap();
    let before = std::fs::read(&other).unwrap();
    assert!(refused(&other).contains("another application"));
    assert_eq!(std::fs::read(&other).unwrap(), before);

    let marked = folder.path().join("marked.db");
    Connection::open(&marked).unwrap().execute_batch("PRAGMA application_id = 77").unwrap();
    assert!(refused(&marked).contains("another application"));
    let beside = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(beside, 3, "nothing was put beside them");
}

#[test]
fn a_newer_schema_is_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let text = refused(&path);
    assert!(text.contains("schema 99") && text.contains("newer flowfabric"), "{text}");
}

#[test]
fn a_damaged_file_says_to_restore_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..2_000].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let text = refused(&path);
    assert!(text.contains("damaged") && text.contains("backup"), "{text}");
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = refused(&folder.path().join("no/such/a.db"));
    assert!(text.contains("no/such first"), "{text}");
    let text = refused(folder.path());
    assert!(text.contains("cannot be opened"), "{text}");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    std::fs::write(&path, "").unwrap();
    SqliteStore::open(&path, Options::default()).unwrap();
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ids: Vec<_> = std::thread::scope(|scope| {
        let open = || SqliteStore::open(&path, Options::default()).unwrap().info().id;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[tokio::test]
async fn a_backup_is_a_store_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db"), Options::default()).unwrap();
    let mut desk = Desk::new(0, 1);
    let id = desk.create();
    desk.flush(&store).await;
    let copy = folder.path().join("copy.db");
    store.backup(&copy).await.unwrap();
    desk.create();
    desk.flush(&store).await;
    let text = store.backup(&copy).await.unwrap_err().to_string();
    assert!(text.contains("never overwrites"), "{text}");
    assert!(!folder.path().join("copy.db.partial").exists());

    let copied = SqliteStore::open(&copy, Options::default()).unwrap();
    assert_eq!(copied.info(), store.info());
    assert_eq!(copied.check().await.unwrap(), Vec::<String>::new());
    assert_eq!(copied.counts().await.unwrap()[0].1, 1);
    assert_eq!(store.counts().await.unwrap()[0].1, 2);
    let page = copied.executions(crate::reading::everything()).await.unwrap();
    assert_eq!(page.executions.iter().map(|it| it.id).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn after_closing_everything_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.close().await;
    store.close().await;
    assert!(matches!(store.status().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.gone().await, Err(StoreError::Unavailable(_))));
    let outcome = store.commit(vec![Desk::new(0, 1).commit()]).await;
    assert!(matches!(outcome.as_slice(), [ff_store::Outcome::Failed(StoreError::Unavailable(_))]));
    assert!(!folder.path().join("a.db-wal").exists(), "the log was moved into the file");
}
