//! A commit that PostgreSQL cuts off while a caller waits for it: the caller gets its answer, and what was asked for has
//! happened once.

use std::time::Duration;

use ff_scratch::{Session, run_sql, until_blocked};
use flowfabric::{Context, Fact, Worker};

use crate::background::start;
use crate::ground::{Ground, endings, log};

const HELD: &str = "BEGIN; LOCK TABLE flowfabric.executions IN ACCESS EXCLUSIVE MODE";
/// What is waiting for a lock and is not one of the test's own sessions.
const WAITING: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                       AND application_name = 'flowfabric'";

/// Submits while a table is locked, does something to the commit that waits for it, lets go, and expects that the
/// submission went through once.
async fn goes_through_once(setting: Option<&str>, interrupt: impl Fn(&str) + Send + 'static) {
    let ground = Ground::new();
    let fabric = ground.fabric().await;
    let url = ground.url();
    if let Some(setting) = setting {
        let database = ground.sql("SELECT current_database()").await;
        ground.sql(&format!("ALTER DATABASE {database} SET {setting}")).await;
    }
    // Connections are made when they are needed, so the ones that write have the setting.
    let mut other = Session::open(&url).unwrap();
    other.run(&format!("SET statement_timeout = 0; {HELD}")).unwrap();
    let submitting = {
        let fabric = fabric.clone();
        tokio::spawn(async move { fabric.submit("job", &7).await.unwrap().id() })
    };
    let interrupting = move || {
        interrupt(&url);
        other.run("ROLLBACK").unwrap();
    };
    tokio::task::spawn_blocking(interrupting).await.unwrap();
    let id = submitting.await.unwrap();
    let worker = start(Worker::new(&fabric).on("job", |_: Context, n: u64| async move { Ok(n) }));
    fabric.wait(id).await.unwrap();
    let log = log(&fabric).await;
    let created = log.iter().filter(|event| matches!(event.fact, Fact::Created { .. }));
    assert_eq!(created.filter_map(|event| event.execution).collect::<Vec<_>>(), [id]);
    assert_eq!(endings(&log).into_iter().collect::<Vec<_>>(), [(id, 1)]);
    worker.stop().await;
    fabric.shutdown(Duration::from_secs(5)).await;
}

fn ask(url: &str, what: &str) -> String {
    run_sql(url, &[&format!("SELECT {what} {WAITING}")]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_connection_is_ended_goes_through_once() {
    goes_through_once(None, |url| {
        until_blocked(url, 1).unwrap();
        assert_eq!(ask(url, "pg_terminate_backend(pid)"), "t");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_an_operator_cancels_goes_through_once() {
    goes_through_once(None, |url| {
        until_blocked(url, 1).unwrap();
        assert_eq!(ask(url, "pg_cancel_backend(pid)"), "t");
    })
    .await;
}

/// It is cut off and sent again: the same statement is seen to wait twice, each time in a transaction of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_runs_into_statement_timeout_goes_through_once() {
    goes_through_once(Some("statement_timeout = '500ms'"), |url| {
        let waiting = || ask(url, "xact_start");
        let first = loop {
            match waiting() {
                none if none.is_empty() => {}
                first => break first,
            }
        };
        while ["", first.as_str()].contains(&waiting().as_str()) {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_transactions_are_serializable_two_servers_end_everything_once() {
    let ground = Ground::new();
    let first = ground.fabric().await;
    let database = ground.sql("SELECT current_database()").await;
    let serializable =
        format!("ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'");
    ground.sql(&serializable).await;
    let fabrics = [first, ground.fabric().await];
    let worker = |n: usize| {
        start(Worker::new(&fabrics[n]).concurrency(4).on("job", |_: Context, n: usize| async move { Ok(n) }))
    };
    let workers = [worker(0), worker(1)];
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(fabrics[n % 2].submit("job", &n).await.unwrap().id());
    }
    for (n, id) in ids.iter().enumerate() {
        fabrics[(n + 1) % 2].wait(*id).await.unwrap();
    }
    ids.sort_unstable();
    let once: Vec<_> = ids.into_iter().map(|id| (id, 1)).collect();
    assert_eq!(endings(&log(&fabrics[0]).await).into_iter().collect::<Vec<_>>(), once);
    for worker in workers {
        worker.stop().await;
    }
    for fabric in fabrics {
        fabric.shutdown(Duration::from_secs(5)).await;
    }
}
