//! On PostgreSQL the cost of a commit does not depend on what the planner believes of the tables.

use std::time::{Duration, Instant};

use ff_scratch::{Database, run_sql, test_postgres};
use flowfabric::{Context, Submission, TaskFailure, Worker};

const HOT: &str = "('executions', 'ready', 'agenda', 'leases', 'ended', 'commits', 'payloads', 'attempts', 'dedup', \
                   'events', 'counts', 'ready_counts', 'inbox')";

/// Runs so many executions on a store that the planner believes to be empty and answers which tables were read whole,
/// and how often. `prepare` is run when the schema is there.
async fn read_whole(count: usize, prepare: Option<&str>) -> String {
    let admin = test_postgres().expect("a server for tests");
    let database = Database::create(&admin, None).expect("a database");
    let url = database.url();
    let sql = |statement: &str| run_sql(&url, &[statement]).expect("the statement");
    let fabric = flowfabric::connect(&url).await.expect("a fabric");
    prepare.map(&sql);
    // From here on the planner knows for sure that everything is empty.
    sql("VACUUM ANALYZE");
    sql("SELECT pg_stat_reset()");

    let worker = Worker::new(&fabric).concurrency(200).on("noop", |context: Context, _: ()| async move {
        // Some need a second attempt, so that attempts are archived and timers fire.
        let unlucky = context.id().0.as_bytes()[13].is_multiple_of(20);
        match context.attempt() {
            1 if unlucky => Err(TaskFailure::retryable("once more").after(Duration::from_millis(20))),
            _ => Ok(()),
        }
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let submissions = (0..count).map(|n| {
        let submission = Submission::new("noop", &());
        if n % 4 == 0 { submission.idempotency_key(&format!("key-{n}")) } else { submission }
    });
    let mut runs = Vec::new();
    for run in fabric.submit_many(submissions.collect()).await {
        runs.push(run.expect("submitted"));
    }
    sql("SELECT flowfabric.submit('noop', 'null') FROM generate_series(1, 100)");
    for run in &runs {
        run.wait().await.expect("ended");
    }
    drop(stop);
    running.await.expect("the worker ends").expect("in order");
    fabric.shutdown(Duration::from_secs(10)).await;

    // A server process tells its figures at the latest when it ends, which the shutdown has brought about.
    let inserted = || sql("SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'executions'");
    let deadline = Instant::now() + Duration::from_secs(20);
    while inserted().parse::<usize>().unwrap_or(0) < count {
        assert!(Instant::now() < deadline, "the figures of the server do not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sql(&format!(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'flowfabric' AND relname IN {HOT} \
         AND seq_scan > 0 ORDER BY 1"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_is_read_whole_also_when_statistics_say_that_all_are_empty() {
    assert_eq!(read_whole(2_000, None).await, "", "tables that were read whole, and how often");
}

/// The functions stay as they are, but nothing tells the planner any more what it must not do.
const FREE_PLANS: &str = "DO $$ DECLARE f regprocedure; BEGIN \
     FOR f IN SELECT p.oid::regprocedure FROM pg_proc AS p \
               WHERE p.pronamespace = 'flowfabric'::regnamespace AND p.proconfig IS NOT NULL LOOP \
         EXECUTE format('ALTER FUNCTION %s RESET ALL', f); \
         EXECUTE format('ALTER FUNCTION %s SET search_path = flowfabric, pg_temp', f); \
     END LOOP; END $$";

/// Without this, the test above could pass because it looks in the wrong place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_pinned_plans_tables_are_read_whole_and_the_figures_tell() {
    let found = read_whole(200, Some(FREE_PLANS)).await;
    for table in ["agenda", "commits", "leases"] {
        let told = found.lines().any(|line| line.starts_with(&format!("{table}|")));
        assert!(told, "{table} was not read whole, or nobody tells: {found:?}");
    }
}
