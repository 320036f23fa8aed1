//! The shortest way through: submit, work, result.

use flowfabric::{Context, Error, Worker};
use serde::{Deserialize, Serialize};

use crate::ground::connect;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    order: u64,
}

#[tokio::test]
async fn work_is_submitted_run_and_answered() {
    let fabric = connect("memory:").await.unwrap();
    let run = fabric.submit("charge", &Order { id: 7 }).lane("billing").await.unwrap();
    let worker = Worker::new(&fabric)
        .lane("billing")
        .on("charge", |_: Context, order: Order| async move { Ok(Receipt { order: order.id }) });
    let result = async { assert_eq!(run.result::<Receipt>().await, Ok(Receipt { order: 7 })) };
    worker.run_until(result).await.unwrap();
    assert_eq!(run.get().await.unwrap().public_state().word(), "completed");
}

#[tokio::test]
async fn a_file_keeps_work_and_results_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let fabric = connect(&url).await.unwrap();
    let id = fabric.submit("double", &21).await.unwrap().id();
    fabric.shutdown(std::time::Duration::from_secs(5)).await;

    let fabric = connect(&url).await.unwrap();
    let run = fabric.run(id);
    let worker = Worker::new(&fabric).on("double", |_: Context, n: u64| async move { Ok(n * 2) });
    worker.run_until(async { assert_eq!(run.result::<u64>().await, Ok(42)) }).await.unwrap();
    fabric.shutdown(std::time::Duration::from_secs(5)).await;

    let fabric = connect(&url).await.unwrap();
    assert_eq!(fabric.run(id).result::<u64>().await, Ok(42));
}

#[tokio::test]
async fn a_result_of_another_type_is_named() {
    let fabric = connect("memory:").await.unwrap();
    let run = fabric.submit("double", &21).await.unwrap();
    let worker = Worker::new(&fabric).on("double", |_: Context, n: u64| async move { Ok(n * 2) });
    worker.run_until(async { drop(run.wait().await.unwrap()) }).await.unwrap();
    let error = run.result::<String>().await.unwrap_err();
    assert!(matches!(error, Error::UnexpectedResult { .. }), "{error}");
    assert_eq!(error.code(), "unexpected_result");
}
