//! The schema: made once, whoever comes first, and refused when it is too new.

use ff_core::PartitionId;
use ff_core::agenda::Subject;
use ff_core::key::Ask;
use ff_core::lane::LaneMode;
use ff_core::payload::Slot;
use ff_core::registry::RecordKind;
use ff_core::state::{PublicState, Reason};
use ff_core::step::StepKind;
use ff_core::stream::FrameMode;
use ff_core::worker::WorkerMode;
use ff_core::workspace::Answer;
use ff_store::{Store as _, StoreError};
use ff_store_postgres::{Address, Migrated, Options, PostgresStore, newest_schema};

use super::{database, open, sql};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_that_start_at_once_make_one_schema() {
    let database = database();
    let url = database.url();
    let opening = (0..10).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { open(&url).await.map(|store| store.info()) })
    });
    let opening: Vec<_> = opening.collect();
    let mut ids = Vec::new();
    for opened in opening {
        ids.push(opened.await.unwrap().expect("every server opens").id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "all of them serve the same store");
    assert_eq!(sql(&url, "SELECT count(*) FROM flowfabric.migrations"), newest_schema().to_string());
}

#[tokio::test]
async fn migrating_says_what_it_did_and_twice_changes_nothing() {
    let database = database();
    let address = || Address::parse(&database.url()).unwrap();
    let first = PostgresStore::migrate(address(), Options::default()).await.unwrap();
    assert_eq!(first, Migrated { from: 0, to: newest_schema() });
    let second = PostgresStore::migrate(address(), Options::default()).await.unwrap();
    assert_eq!(second, Migrated { from: newest_schema(), to: newest_schema() });
}

#[tokio::test]
async fn a_database_of_the_first_schema_is_brought_up_to_date_with_what_is_in_it() {
    let database = database();
    let url = database.url();
    open(&url).await.unwrap().close().await;
    // What later migrations have added is taken away again.
    sql(&url, "DROP TABLE flowfabric.registry, flowfabric.parcels");
    let functions = ["commit_registry_1", "load_registry_1", "exchange_1", "newest_execution_1"];
    functions.iter().for_each(|name| drop(sql(&url, &format!("DROP FUNCTION flowfabric.{name}"))));
    sql(&url, "DELETE FROM flowfabric.migrations WHERE number > 1");
    let id = sql(&url, "SELECT id FROM flowfabric.store");
    let address = Address::parse(&url).unwrap();
    let migrated = PostgresStore::migrate(address, Options::default()).await.unwrap();
    assert_eq!(migrated, Migrated { from: 1, to: newest_schema() });
    let store = open(&url).await.unwrap();
    assert_eq!(store.info().id.to_string(), id, "it is the same store");
    let ask = Ask::Registry { kind: RecordKind::Token, id: None };
    let loaded = store.load(PartitionId(0), vec![ask]).await.unwrap();
    assert_eq!(loaded.answers, [Answer::Registry { kind: RecordKind::Token, id: None, records: vec![] }]);
    assert_eq!(store.exchange("a".to_owned(), vec![]).await, Ok(vec![]));
    store.close().await;
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused_unless_it_only_added() {
    let database = database();
    let url = database.url();
    open(&url).await.unwrap().close().await;
    let newer = newest_schema() + 1;
    sql(&url, &format!("INSERT INTO flowfabric.migrations VALUES ({newer}, 'adds', 1, now())"));
    open(&url).await.expect("a migration that only added").close().await;
    sql(&url, &format!("INSERT INTO flowfabric.migrations VALUES ({}, 'breaks', {newer}, now())", newer + 1));
    let Err(StoreError::Unusable(text)) = open(&url).await else { panic!("it must be refused") };
    assert!(text.contains("use a newer flowfabric"), "{text}");
}

#[tokio::test]
async fn without_leave_to_migrate_an_empty_database_is_refused_with_what_to_do() {
    let database = database();
    let options = Options { migrate: false, ..Options::default() };
    let refused = PostgresStore::open(Address::parse(&database.url()).unwrap(), options).await;
    let Err(StoreError::Unusable(text)) = refused else { panic!("there is no schema") };
    assert!(text.contains("flowfabric store migrate"), "{text}");
}

#[tokio::test]
async fn the_database_accepts_exactly_the_words_of_the_core() {
    let database = database();
    let url = database.url();
    open(&url).await.unwrap().close().await;
    let states: Vec<&str> = PublicState::ALL.iter().map(|it| it.word()).collect();
    let reasons: Vec<&str> = Reason::ALL.iter().map(|it| it.word()).collect();
    let slots: Vec<&str> = Slot::ALL.iter().map(|it| it.word()).collect();
    let lanes: Vec<&str> = LaneMode::ALL.iter().map(|it| it.word()).collect();
    let workers: Vec<&str> = WorkerMode::ALL.iter().map(|it| it.word()).collect();
    let steps: Vec<&str> = StepKind::ALL.iter().map(|it| it.word()).collect();
    let frames: Vec<&str> = FrameMode::ALL.iter().map(|it| it.word()).collect();
    for (table, column, mut words) in [
        ("executions", "state", states),
        ("executions", "reason", reasons),
        ("agenda", "kind", Subject::KINDS.to_vec()),
        ("payloads", "slot", slots),
        ("steps", "kind", steps),
        ("frames", "mode", frames),
        ("lanes", "mode", lanes),
        ("workers", "mode", workers),
    ] {
        let check = sql(
            &url,
            &format!(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint \
                 WHERE conrelid = 'flowfabric.{table}'::regclass AND contype = 'c' \
                   AND pg_get_constraintdef(oid) LIKE '%({column} = ANY%'"
            ),
        );
        let mut found: Vec<&str> = check.split('\'').skip(1).step_by(2).collect();
        found.sort_unstable();
        words.sort_unstable();
        assert_eq!(found, words, "{table}.{column}");
    }
}

#[tokio::test]
async fn the_views_can_be_read() {
    let database = database();
    let url = database.url();
    open(&url).await.unwrap().close().await;
    let views =
        sql(&url, "SELECT table_name FROM information_schema.views WHERE table_schema = 'flowfabric'");
    assert!(views.lines().count() >= 10, "{views}");
    for view in views.lines() {
        assert_eq!(sql(&url, &format!("SELECT * FROM flowfabric.{view}")), "", "{view} of an empty store");
    }
}
