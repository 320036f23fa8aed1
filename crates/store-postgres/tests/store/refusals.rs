//! What cannot work says so, names what to do, and never shows a password.

use ff_scratch::{Cluster, Settings, run_sql};
use ff_store::{Store as _, StoreError};
use ff_store_postgres::{Address, Options, PostgresStore};

use super::{database, open, sql, with};

fn unusable(refused: Result<PostgresStore, StoreError>) -> String {
    match refused {
        Err(StoreError::Unusable(text)) => text,
        other => panic!("it must be refused for good, not {other:?}"),
    }
}

fn unavailable(refused: Result<PostgresStore, StoreError>) -> String {
    match refused {
        Err(StoreError::Unavailable(text)) => text,
        other => panic!("trying again could help, so not {other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_may_come() {
    let text = unavailable(open("postgres://ada:secret@127.0.0.1:1/jobs").await);
    assert!(text.contains("out of reach") && text.contains("127.0.0.1:1"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_database_have_to_be_put_right() {
    let database = database();
    let url = database.url();
    let password = url.split("://").nth(1).unwrap().split('@').next().unwrap().to_owned();
    let text = unusable(open(&with(&url, &password, "postgres:wrong")).await);
    assert!(text.contains("user and password") && !text.contains("wrong@"), "{text}");
    let text = unusable(open(&with(&url, database.name(), "nowhere")).await);
    assert!(text.contains("create the database"), "{text}");
}

#[tokio::test]
async fn a_role_without_rights_is_told_what_it_lacks() {
    let database = database();
    let url = database.url();
    open(&url).await.unwrap().close().await;
    let role = format!("role_{}", database.name());
    sql(&url, &format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'"));
    let credentials = url.split("://").nth(1).unwrap().split('@').next().unwrap().to_owned();
    let theirs = with(&url, &credentials, &format!("{role}:pw"));
    let text = unusable(open(&theirs).await);
    assert!(text.contains("lacks rights") && text.contains("docs/postgres.md"), "{text}");

    // What docs/postgres.md lists is enough.
    for grant in [
        format!("GRANT USAGE ON SCHEMA flowfabric TO {role}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA flowfabric TO {role}"),
        format!("GRANT USAGE ON ALL SEQUENCES IN SCHEMA flowfabric TO {role}"),
        format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA flowfabric TO {role}"),
    ] {
        sql(&url, &grant);
    }
    let store = open(&theirs).await.expect("with the grants of the documentation it opens");
    store.status().await.expect("and reads");
    assert_eq!(store.beat("me".to_owned()).await, Ok(vec!["me".to_owned()]));
    store.close().await;
    sql(&url, &format!("DROP OWNED BY {role}"));
    sql(&url, &format!("DROP ROLE {role}"));
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let database = database();
    let url = database.url();
    open(&format!("{url}?partitions=3")).await.unwrap().close().await;
    let text = unusable(open(&format!("{url}?partitions=4")).await);
    assert!(text.contains("has 3 partitions") && text.contains("4 were asked for"), "{text}");
    assert_eq!(open(&url).await.unwrap().info().partitions, 3);
}

#[tokio::test]
async fn a_standby_is_refused_until_it_is_promoted_and_several_hosts_find_the_primary() {
    let primary = Cluster::start(Settings::durable()).expect("a server");
    let before = open(&primary.url()).await.unwrap().info();
    let standby = primary.standby().expect("a standby");
    let text = unusable(open(&standby.url()).await);
    assert!(text.contains("read-only standby") && text.contains("target_session_attrs"), "{text}");
    let both = with(
        &standby.url(),
        &format!("127.0.0.1:{}", standby.port()),
        &format!("127.0.0.1:{},127.0.0.1:{}", standby.port(), primary.port()),
    );
    let store = open(&format!("{both}?target_session_attrs=read-write")).await.expect("the primary is found");
    assert_eq!(store.info(), before);
    // The handle goes on with the promoted one.
    primary.stop_immediate().expect("stopped");
    standby.promote().expect("promoted");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while let Err(error) = store.status().await {
        assert!(std::time::Instant::now() < deadline, "it does not come back: {error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(open(&standby.url()).await.unwrap().info(), before);
}

#[tokio::test]
async fn a_server_without_free_connections_is_tried_again() {
    let cluster = Cluster::start(
        Settings::quick().with("max_connections", "6").with("superuser_reserved_connections", "1"),
    )
    .expect("a server");
    run_sql(&cluster.url(), &["CREATE ROLE app LOGIN SUPERUSER PASSWORD 'pw'"]).unwrap();
    open(&cluster.url()).await.unwrap().close().await;
    let mut kept = Vec::new();
    let refused = loop {
        let address = Address::parse(&cluster.url()).unwrap();
        let options = Options { readers: 2, ..Options::default() };
        match PostgresStore::open(address, options).await {
            Ok(store) => match store.status().await {
                Ok(_) => kept.push(store),
                Err(error) => break error,
            },
            Err(error) => break error,
        }
        assert!(kept.len() < 20, "the server has 6 connections");
    };
    let StoreError::Unavailable(text) = refused else { panic!("trying again could help: {refused:?}") };
    assert!(text.contains("max_connections"), "{text}");
}

#[tokio::test]
async fn a_connection_without_tls_is_refused_where_tls_is_asked_for() {
    let database = database();
    let text = unavailable(open(&format!("{}?sslmode=require", database.url())).await);
    assert!(text.to_lowercase().contains("tls"), "{text}");
}
