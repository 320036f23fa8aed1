//! Applications that share the file post rows in transactions of their own.

use ff_core::PartitionId;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::workspace::Answer;
use ff_store::Store;
use ff_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

async fn rows(store: &SqliteStore) -> Vec<Posted> {
    let ask = vec![Ask::Inbox { limit: 100, bytes: usize::MAX }];
    match store.load(PartitionId(0), ask).await.unwrap().answers.remove(0) {
        Answer::Inbox(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn open() -> (tempfile::TempDir, SqliteStore, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let conn = Connection::open(path).unwrap();
    (folder, store, conn)
}

#[tokio::test]
async fn a_row_is_posted_if_and_only_if_the_transaction_of_the_application_commits() {
    let (_folder, store, mut conn) = open();
    conn.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)").unwrap();
    for commits in [false, true] {
        let transaction = conn.transaction().unwrap();
        transaction.execute("INSERT INTO orders (state) VALUES ('paid')", []).unwrap();
        let post = r#"INSERT INTO inbox (kind, input) VALUES ('charge', '{"order":7}')"#;
        transaction.execute(post, []).unwrap();
        assert_eq!(rows(&store).await, []);
        assert!(!store.status().await.unwrap().1[0].inbox);
        if commits { transaction.commit().unwrap() } else { transaction.rollback().unwrap() }
    }
    let rows = rows(&store).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].kind.as_str(), &rows[0].input.bytes[..]), ("charge", &br#"{"order":7}"#[..]));
    assert!(store.status().await.unwrap().1[0].inbox);
}

#[tokio::test]
async fn a_row_that_says_only_its_kind_has_defaults() {
    let (_folder, store, conn) = open();
    conn.execute("INSERT INTO inbox (kind) VALUES ('tick')", []).unwrap();
    let row = rows(&store).await.remove(0);
    assert_eq!((row.number, row.id), (1, None));
    assert_eq!(row.input, ff_core::Payload::json("null"));
    let now = store.status().await.unwrap().0;
    assert!((now - row.posted_at).abs() < 60_000, "posted at {}, now {now}", row.posted_at);
}

#[test]
fn the_table_refuses_what_could_not_be_read() {
    let (_folder, _store, conn) = open();
    for wrong in [
        "INSERT INTO inbox (input) VALUES ('1')",
        "INSERT INTO inbox (kind, input) VALUES ('a', 7)",
        "INSERT INTO inbox (kind, id) VALUES ('a', X'00')",
        "INSERT INTO inbox (kind, posted_at) VALUES ('a', 'today')",
        "INSERT INTO inbox (kind, number) VALUES ('a', -1)",
    ] {
        assert!(conn.execute(wrong, []).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn text_in_a_broken_encoding_does_not_hide_other_rows() {
    let (_folder, store, conn) = open();
    conn.execute("INSERT INTO inbox (kind, lane) VALUES (CAST(X'ff61' AS TEXT), CAST(X'fe' AS TEXT))", [])
        .unwrap();
    conn.execute("INSERT INTO inbox (kind) VALUES ('good')", []).unwrap();
    let kinds: Vec<String> = rows(&store).await.into_iter().map(|row| row.kind).collect();
    assert_eq!(kinds, ["\u{fffd}a", "good"]);
}

#[tokio::test]
async fn a_dead_letter_can_be_posted_again_and_its_number_is_not_used_twice() {
    let (_folder, store, conn) = open();
    conn.execute("INSERT INTO inbox (kind) VALUES ('')", []).unwrap();
    let mut desk = crate::desk::Desk::new(0, 1);
    let head = ff_core::inbox::LetterHead { id: None, kind: "".into() };
    desk.workspace.settle_posted(1, head, ff_core::inbox::Fate::dead("no kind"));
    desk.flush(&store).await;
    let again = "INSERT INTO inbox (partition, id, kind, input, content_type, namespace, lane, key, options)
        SELECT partition, id, 'mended', input, content_type, namespace, lane, key, options
          FROM dead_letters WHERE number = 1";
    assert_eq!(conn.execute(again, []).unwrap(), 1);
    assert_eq!(conn.execute("DELETE FROM dead_letters WHERE number = 1", []).unwrap(), 1);
    let row = rows(&store).await.remove(0);
    assert_eq!((row.number, row.kind.as_str()), (2, "mended"));
}
