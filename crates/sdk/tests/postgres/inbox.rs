//! Work that an application submits in SQL, inside its own transaction.

use std::time::Duration;

use flowfabric::{Context, ExecutionId, Fact, PublicState, Worker};

use crate::background::start;
use crate::ground::{Ground, log};

/// Two servers race for everything that is posted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_submitted_in_a_transaction_exists_if_and_only_if_that_commits() {
    let ground = Ground::new();
    let fabrics = ground.fabrics(2).await;
    let worker = start(Worker::new(&fabrics[1]).on("double", |_: Context, n: u64| async move { Ok(n * 2) }));
    let post = |n: u64, end: &str| format!("BEGIN; SELECT flowfabric.submit('double', '{n}'); {end}");
    let mut undone: Vec<ExecutionId> = Vec::new();
    for n in 0..10 {
        undone.push(ground.sql(&post(n, "ROLLBACK")).await.parse().unwrap());
        let id = ground.sql(&post(n, "COMMIT")).await.parse().unwrap();
        // Until it is taken in, nobody knows it.
        let ended = loop {
            match fabrics[0].wait(id).await {
                Err(error) if error.code() == "not_found" => fabrics[0].engine().unwrap().nudge().await,
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(ended.execution.public_state(), PublicState::Completed);
        assert_eq!(fabrics[0].run(id).result::<u64>().await, Ok(n * 2));
    }
    // What was taken in is everything that was committed.
    let created = log(&fabrics[0]).await;
    let created = created.iter().filter(|event| matches!(event.fact, Fact::Created { .. }));
    assert_eq!(created.count(), 10);
    for id in undone {
        assert_eq!(fabrics[0].get(id).await.unwrap_err().code(), "not_found");
    }
    worker.stop().await;
    for fabric in fabrics {
        fabric.shutdown(Duration::from_secs(5)).await;
    }
}
