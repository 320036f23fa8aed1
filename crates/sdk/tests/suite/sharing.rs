//! Several fabrics on one store: work submitted in one runs in another.

use std::sync::Arc;

use ff_store::MemoryStore;
use flowfabric::{Context, EventFilter, Fabric, Options, Start, Worker};

use crate::background::start;
use crate::ground::{connect, on_store};

fn worker(fabric: &Fabric) -> Worker {
    Worker::new(fabric).on("double", |_: Context, n: u64| async move { Ok(n * 2) })
}

async fn work_crosses(here: &Fabric, there: &Fabric) {
    let mut events = here.events(EventFilter::default(), Start::Now).await.unwrap();
    let worker = start(worker(there));
    for n in 0..5 {
        let run = here.submit("double", &n).await.unwrap();
        assert_eq!(run.result::<u64>().await, Ok(n * 2));
    }
    while events.next().await.unwrap().event.fact.word() != "completed" {}
    worker.stop().await;
}

#[tokio::test]
async fn two_fabrics_share_a_store_in_memory() {
    for partitions in [1, 3] {
        let store = MemoryStore::new(partitions);
        let here = on_store(Arc::new(store.another()), Options::new()).await.unwrap();
        let there = on_store(Arc::new(store.another()), Options::new()).await.unwrap();
        work_crosses(&here, &there).await;
        work_crosses(&there, &here).await;
    }
}

#[tokio::test]
async fn two_fabrics_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?partitions=2&synchronous=off", folder.path().join("jobs.db").display());
    let (here, there) = (connect(&url).await.unwrap(), connect(&url).await.unwrap());
    work_crosses(&here, &there).await;
    work_crosses(&there, &here).await;
}

#[tokio::test]
async fn a_cancel_elsewhere_reaches_the_handler() {
    let store = MemoryStore::new(1);
    let here = on_store(Arc::new(store.another()), Options::new()).await.unwrap();
    let there = on_store(Arc::new(store.another()), Options::new()).await.unwrap();
    let worker = start(Worker::new(&there).on("wait", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        Ok("stopped in good order")
    }));
    let run = here.submit("wait", &()).await.unwrap();
    let mut watch = run.watch().await.unwrap();
    while watch.next().await.unwrap().unwrap().public_state().word() != "active" {}
    run.cancel_within(std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(run.result::<String>().await.as_deref(), Ok("stopped in good order"));
    worker.stop().await;
}

#[tokio::test]
async fn many_workers_of_many_fabrics_run_everything_once() {
    let store = MemoryStore::new(3);
    let mut fabrics = Vec::new();
    for _ in 0..3 {
        fabrics.push(on_store(Arc::new(store.another()), Options::new()).await.unwrap());
    }
    let workers: Vec<_> = fabrics.iter().map(|fabric| start(worker(fabric))).collect();
    let mut runs = Vec::new();
    for n in 0..300 {
        runs.push(fabrics[n % 3].submit("double", &n).await.unwrap());
    }
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(run.result::<usize>().await, Ok(n * 2));
        assert_eq!(run.get().await.unwrap().attempt_number(), 1);
    }
    for worker in workers {
        worker.stop().await;
    }
}
