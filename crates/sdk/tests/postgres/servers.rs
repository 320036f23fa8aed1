//! Who does what when there are several servers, and when one of them is suddenly gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flowfabric::{Context, EventFilter, ExecutionId, Fabric, Fact, LaneMode, PublicState, Start, Worker};

use crate::background::start;
use crate::ground::{Ground, endings, log};

/// How far ahead what is due is submitted: longer than that takes.
const AHEAD_MS: i64 = 10_000;
/// What is due is done by somebody within two seconds, whoever is gone; the rest is for a machine that does much else.
const LATE_MS_MAX: i64 = 5_000;

fn worker(fabric: &Fabric) -> Worker {
    Worker::new(fabric).concurrency(4).on("double", |_: Context, n: usize| async move { Ok(n * 2) })
}

/// Submits through all of them in turn; the first goes in the middle of it, with its worker, without a word.
async fn everything_ends_once(servers: usize) {
    let ground = Ground::new();
    let mut fabrics = ground.fabrics(servers).await;
    let mut workers: Vec<_> = fabrics.iter().map(|fabric| start(worker(fabric))).collect();
    let mut ids: Vec<ExecutionId> = Vec::new();
    for n in 0..200 {
        if n == 100 {
            // What it holds: its worker never ends it.
            let stuck = start(Worker::new(&fabrics[0]).on("stuck", |_: Context, (): ()| async move {
                std::future::pending::<()>().await;
                Ok(())
            }));
            let run = fabrics[0].submit("stuck", &()).lease(Duration::from_secs(1)).await.unwrap();
            let mut watch = run.watch().await.unwrap();
            while watch.next().await.unwrap().unwrap().public_state() != PublicState::Active {}
            ids.push(run.id());
            drop((run, watch));
            stuck.kill().await;
            workers.remove(0).kill().await;
            drop(fabrics.remove(0));
        }
        let through = &fabrics[n % fabrics.len()];
        ids.push(through.submit("double", &n).lease(Duration::from_secs(1)).await.unwrap().id());
    }
    let freed = start(Worker::new(&fabrics[0]).on("stuck", |_: Context, (): ()| async { Ok(()) }));
    for (n, id) in ids.iter().enumerate() {
        // Not where it was submitted.
        let ended = fabrics[(n + 1) % fabrics.len()].wait(*id).await.unwrap();
        assert_eq!(ended.execution.public_state(), PublicState::Completed, "{id}");
    }
    let once: BTreeMap<ExecutionId, usize> = ids.iter().map(|id| (*id, 1)).collect();
    assert_eq!(endings(&log(&fabrics[0]).await), once);
    for worker in workers.into_iter().chain([freed]) {
        worker.stop().await;
    }
    for fabric in fabrics {
        fabric.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_end_everything_once_when_one_is_gone() {
    everything_ends_once(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_end_everything_once_when_one_is_gone() {
    everything_ends_once(4).await;
}

/// In every partition there is something that only the server that is gone had in memory. When it is fired is
/// told by the database's clock, in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_that_is_gone_had_to_do_is_done_in_time_by_another() {
    let ground = Ground::new();
    let (gone, stays) = (ground.fabric().await, ground.fabric().await);
    let mut events = stays.events(EventFilter::default(), Start::Now).await.unwrap();
    let (now, _) = gone.engine().unwrap().store().status().await.unwrap();
    let due = now + AHEAD_MS;
    let mut asleep = BTreeSet::new();
    for n in 0..16 {
        let run = gone.submit("later", &n).idempotency_key(&format!("key {n}")).run_at(due).await.unwrap();
        asleep.insert(run.id());
    }
    for id in &asleep {
        let found = stays.get(*id).await.unwrap();
        assert_eq!(found.public_state(), PublicState::Delayed, "{id} was due before all were submitted");
    }
    drop(gone);
    while !asleep.is_empty() {
        let event = events.next().await.unwrap().event;
        if let (Fact::Woken, Some(id)) = (&event.fact, event.execution) {
            assert!(asleep.remove(&id), "{id} was woken twice");
            let late_ms = event.at - due;
            assert!((0..=LATE_MS_MAX).contains(&late_ms), "{id} was woken {late_ms} ms late");
        }
    }
    stays.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_at_one_server_hears_what_was_said_to_another() {
    let ground = Ground::new();
    let (here, there) = (ground.fabric().await, ground.fabric().await);
    for n in 0..8 {
        let run = there.submit("never", &n).idempotency_key(&format!("key {n}")).await.unwrap();
        let mut watch = here.watch(run.id()).await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().public_state(), PublicState::Waiting);
        let waiting = here.wait(run.id());
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            ended = &mut waiting => panic!("it has not ended: {ended:?}"),
            it = there.hold(run.id()) => drop(it.unwrap()),
        }
        assert_eq!(watch.next().await.unwrap().unwrap().reason().word(), "paused_by_operator");
        there.cancel(run.id()).await.unwrap();
        assert_eq!(waiting.await.unwrap().execution.public_state(), PublicState::Cancelled);
    }
    // What a lane is set to holds everywhere when the answer comes.
    there.lane("default").pause().await.unwrap();
    assert_eq!(here.lanes().await.unwrap()[0].mode, LaneMode::Paused);
    here.shutdown(Duration::from_secs(5)).await;
    there.shutdown(Duration::from_secs(5)).await;
}
