//! Leases: kept alive, lost, taken away, given back.

use std::sync::Arc;
use std::time::Duration;

use flowfabric::{AttemptOutcome, Context, Reason, Worker, WorkerMode};
use tokio::sync::{Notify, Semaphore};

use crate::background::start;
use crate::ground::TestFabric;

const SECOND: Duration = Duration::from_secs(1);

/// A handler that says when it has started and goes on when it may.
struct Gate {
    entered: Semaphore,
    open: Notify,
    dropped: Semaphore,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate { entered: Semaphore::new(0), open: Notify::new(), dropped: Semaphore::new(0) })
    }

    async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    async fn dropped(&self) {
        self.dropped.acquire().await.unwrap().forget();
    }
}

/// Notes that the handler's future has gone.
struct Guard(Arc<Gate>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.add_permits(1);
    }
}

fn gated(fabric: &TestFabric, gate: &Arc<Gate>) -> Worker {
    Worker::new(fabric).data(gate.clone()).on("gated", |ctx: Context, (): ()| async move {
        let gate = ctx.data::<Arc<Gate>>()?.clone();
        let _guard = Guard(gate.clone());
        gate.entered.add_permits(1);
        gate.open.notified().await;
        Ok(ctx.attempt())
    })
}

#[tokio::test]
async fn a_long_handler_keeps_its_lease() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).lease(10 * SECOND).await.unwrap();
    gate.entered().await;
    fabric.advance(3600 * SECOND).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::Running);
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(1));
    worker.stop().await;
}

#[tokio::test]
async fn the_work_of_a_killed_worker_goes_to_another() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let first = start(gated(&fabric, &gate).name("first"));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    first.kill().await;
    gate.dropped().await;

    let second = start(gated(&fabric, &gate).name("second"));
    fabric.advance(29 * SECOND).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::Running);
    // The lease ends, and a backoff of at most a second follows.
    fabric.advance(2 * SECOND).await;
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    let attempts = run.attempts().await.unwrap();
    assert_eq!(attempts[0].end.as_ref().unwrap().outcome, AttemptOutcome::LeaseLost);
    assert_eq!(run.get().await.unwrap().live.series.spent, 1);
    second.stop().await;
}

#[tokio::test]
async fn a_cancel_without_grace_stops_the_handler() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    run.cancel().cause("ordered twice").await.unwrap();
    gate.dropped().await;
    let ended = run.wait().await.unwrap();
    let end = ended.execution.end().unwrap();
    assert_eq!(end.reason, Reason::CancelledByRequest);
    assert_eq!(&*end.cancelled.as_ref().unwrap().cause, "ordered twice");
    worker.stop().await;
}

#[tokio::test]
async fn a_cancel_with_grace_reaches_the_handler_which_may_still_complete() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker =
        Worker::new(&fabric).data(gate.clone()).on("polite", |ctx: Context, finish: bool| async move {
            let gate = ctx.data::<Arc<Gate>>()?;
            assert!(!ctx.is_cancelled());
            gate.entered.add_permits(1);
            ctx.cancelled().await;
            assert!(ctx.is_cancelled());
            if finish { Ok("finished") } else { Err(std::io::Error::other("stopped half-way"))? }
        });
    let worker = start(worker);
    for (finish, state) in [(true, "completed"), (false, "cancelled")] {
        let run = fabric.submit("polite", &finish).await.unwrap();
        gate.entered().await;
        let answer = run.cancel_within(10 * SECOND).await.unwrap();
        assert_eq!(answer.cut_at, Some(fabric.now() + 10_000));
        let ended = run.wait().await.unwrap();
        assert_eq!(ended.execution.public_state().word(), state);
        assert_eq!(ended.execution.attempt_number(), 1);
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_that_does_not_listen_is_cut_off_after_the_grace() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    run.cancel_within(10 * SECOND).await.unwrap();
    fabric.advance(9 * SECOND).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::CancelRequested);
    fabric.advance(SECOND).await;
    gate.dropped().await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::CancelledByRequest);
    worker.stop().await;
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_cut_off_and_tried_again() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).attempt_timeout(60 * SECOND).await.unwrap();
    gate.entered().await;
    fabric.advance(62 * SECOND).await;
    gate.dropped().await;
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    let attempts = run.attempts().await.unwrap();
    assert_eq!(attempts[0].end.as_ref().unwrap().outcome, AttemptOutcome::TimedOut);
    worker.stop().await;
}

#[tokio::test]
async fn a_revoked_lease_stops_the_handler_and_spends_nothing() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).attempts(1).await.unwrap();
    gate.entered().await;
    fabric.revoke(run.id()).cause("wrong machine").await.unwrap();
    gate.dropped().await;
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    worker.stop().await;
}

#[tokio::test]
async fn a_drain_waits_for_handlers_that_end_in_time() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    let waiting = fabric.submit("gated", &()).lane("other").await.unwrap();
    gate.entered().await;
    let stopping = tokio::spawn(worker.stop());
    gate.open.notify_one();
    let stopped = stopping.await.unwrap();
    assert_eq!((stopped.drained, stopped.given_back), (false, 0));
    assert_eq!(run.result::<u32>().await, Ok(1));
    assert_eq!(waiting.get().await.unwrap().attempt_number(), 0);
    let workers = fabric.workers().await.unwrap();
    assert!(workers.iter().all(|it| it.mode == WorkerMode::Dead && &*it.cause == "stopped"));
}

#[tokio::test]
async fn a_drain_gives_back_what_has_not_ended_and_spends_nothing() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate).grace(Duration::ZERO));
    let runs =
        [fabric.submit("gated", &()).attempts(1).await.unwrap(), fabric.submit("gated", &()).await.unwrap()];
    gate.entered().await;
    gate.entered().await;
    assert_eq!(worker.stop().await.given_back, 2);
    gate.dropped().await;
    for run in &runs {
        let execution = run.get().await.unwrap();
        assert_eq!(execution.reason(), Reason::WaitingForWorker);
        assert_eq!((execution.live.series.spent, execution.live.series.losses), (0, 0));
        let attempts = run.attempts().await.unwrap();
        assert_eq!(attempts[0].end.as_ref().unwrap().outcome, AttemptOutcome::Released);
    }
}

#[tokio::test]
async fn an_operator_drains_a_worker() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    let instance = fabric.workers().await.unwrap()[0].instance;
    fabric.drain_worker(instance).actor("ada").await.unwrap();
    let later = fabric.submit("gated", &()).await.unwrap();
    // The next heartbeat says so.
    fabric.advance(10 * SECOND).await;
    gate.open.notify_one();
    assert!(worker.ended().await.unwrap().drained);
    assert_eq!(run.result::<u32>().await, Ok(1));
    assert_eq!(later.get().await.unwrap().attempt_number(), 0);
}

#[tokio::test]
async fn a_worker_that_was_declared_dead_goes_on_as_a_new_instance() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    let dead = fabric.workers().await.unwrap()[0].instance;
    fabric.bury_worker(dead).await.unwrap();
    gate.dropped().await;
    // The next heartbeat is refused; the backoff of the lost lease is over as well.
    fabric.advance(12 * SECOND).await;
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    let workers = fabric.workers().await.unwrap();
    assert!(workers.iter().any(|it| it.instance != dead && it.mode == WorkerMode::Active));
    worker.stop().await;
}

#[tokio::test]
async fn a_hold_stops_the_handler_until_it_is_released() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    fabric.hold(run.id()).cause("look into it").await.unwrap();
    gate.dropped().await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::PausedByOperator);
    fabric.unhold(run.id()).await.unwrap();
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    worker.stop().await;
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_is_given_up_in_time() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    fabric.store().faults().start_outage();
    fabric.advance(29 * SECOND).await;
    assert_eq!(gate.dropped.available_permits(), 0);
    fabric.advance(2 * SECOND).await;
    gate.dropped().await;
    fabric.store().faults().end_outage();
    // After an outage, leases get another while before they count as lost.
    fabric.advance(30 * SECOND).await;
    gate.entered().await;
    gate.open.notify_one();
    assert_eq!(run.result::<u32>().await, Ok(2));
    worker.stop().await;
}

#[tokio::test]
async fn an_ending_waits_for_a_store_that_comes_back() {
    let fabric = TestFabric::new().await;
    let gate = Gate::new();
    let worker = start(gated(&fabric, &gate));
    let run = fabric.submit("gated", &()).await.unwrap();
    gate.entered().await;
    fabric.store().faults().start_outage();
    gate.open.notify_one();
    gate.dropped().await;
    fabric.advance(5 * SECOND).await;
    fabric.store().faults().end_outage();
    fabric.advance(5 * SECOND).await;
    assert_eq!(run.result::<u32>().await, Ok(1));
    worker.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_is_asked_to_end_drains() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("end", |_: Context, (): ()| async move {
        let process = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &process]).status()?;
        Ok(sent.success())
    });
    let run = fabric.submit("end", &()).await.unwrap();
    let stopped = worker.run().await.unwrap();
    assert_eq!((stopped.drained, stopped.given_back), (false, 0));
    assert_eq!(run.result::<bool>().await, Ok(true));
}
