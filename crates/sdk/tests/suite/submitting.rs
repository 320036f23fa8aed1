//! Submitting: what is refused, what is found again, and in which order things run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::{
    Context, EngineConfig, Error, Filter, Limits, Options, Policy, PublicState, Reason, Rejection,
    Submission, Worker,
};

use crate::background::start;
use crate::ground::{TestFabric, connect, connect_with};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn bad_input_is_refused_by_the_name_of_the_field_and_nothing_is_stored() {
    let limits = Limits { input_bytes_max: 100, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let good = || fabric.submit("charge", &7);
    let ms = |ms| Duration::from_millis(ms);
    let cases = [
        (fabric.submit("", &7), "kind"),
        (fabric.submit("a b", &7), "kind"),
        (good().lane(""), "lane"),
        (good().namespace("Acme"), "namespace"),
        (good().priority(101), "priority"),
        (good().priority(-500), "priority"),
        (good().capability("a,b"), "capability"),
        (good().tag("Team", "x"), "tags"),
        (good().idempotency_key(""), "idempotency_key"),
        (good().attempts(0), "policy.max_attempts"),
        (good().lease(ms(1)), "policy.lease_ms"),
        (good().attempt_timeout(ms(0)), "policy.attempt_timeout_ms"),
        (good().schedule_to_start(ms(0)), "policy.schedule_to_start_ms"),
        (good().policy(Policy { losses_max: 0, ..Policy::default() }), "policy.losses_max"),
        (good().delay(Duration::MAX), "run_at"),
        (good().run_at(-1), "run_at"),
        (good().deadline(Duration::ZERO), "deadline"),
        (good().deadline_at(1), "deadline"),
        (fabric.submit("charge", &"x".repeat(99)), "input"),
        (fabric.submit("charge", &std::collections::BTreeMap::from([(vec![1], 2)])), "input"),
        (fabric.submit_bytes("charge", "a\0b", "7"), "content_type"),
    ];
    for (submission, field) in cases {
        let error = submission.await.unwrap_err();
        assert_eq!((error.code(), error.field()), ("invalid", Some(field)), "{error}");
    }
    assert_eq!(fabric.count(&Filter::default()).await.unwrap().count, 0);
}

#[tokio::test]
async fn an_address_that_names_no_store_is_refused() {
    for url in ["ftp://localhost:7400", "mysql://localhost/x", "jobs.db", ""] {
        let error = connect(url).await.unwrap_err();
        assert_eq!(error.field(), Some("url"));
        assert!(error.to_string().contains("supports sqlite:PATH"), "{error}");
    }
    let error = connect("sqlite:/nowhere/at/all/jobs.db").await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[tokio::test]
async fn the_same_key_gives_the_first_execution_and_other_content_is_refused() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    for n in 0..10 {
        let submit = || fabric.submit("charge", &n).idempotency_key(&format!("order-{n}")).namespace("acme");
        let first = submit().await.unwrap();
        let second = submit().await.unwrap();
        assert_eq!((first.id(), false, true), (second.id(), first.existing(), second.existing()));
        let error = submit().priority(1).await.unwrap_err();
        let Error::Rejected(Rejection::IdempotencyMismatch { existing, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(existing, first.id());
    }
    let submit = || fabric.submit("charge", &0).idempotency_key("day").await_run();
    let first = submit().await;
    fabric.advance(24 * 3600 * SECOND).await;
    assert_ne!(submit().await, first, "the window is a day");
}

trait AwaitRun {
    fn await_run(self) -> impl Future<Output = flowfabric::ExecutionId>;
}

impl AwaitRun for Submission<flowfabric::Fabric> {
    async fn await_run(self) -> flowfabric::ExecutionId {
        self.await.unwrap().id()
    }
}

#[tokio::test]
async fn a_submission_with_a_given_id_is_stored_once() {
    let fabric = TestFabric::new().await;
    let id = "0197f3a2-6f3e-7c41-9b1d-0242ac120002".parse().unwrap();
    let first = fabric.submit("charge", &7).id(id).await.unwrap();
    let second = fabric.submit("charge", &7).id(id).await.unwrap();
    assert_eq!((first.id(), first.existing(), second.existing()), (id, false, true));
}

#[tokio::test]
async fn of_many_submissions_a_bad_one_does_not_hurt_the_others() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let mut all: Vec<Submission> = (0..2_500).map(|n| Submission::new("charge", &n)).collect();
    all[1_234] = Submission::new("charge", &7).priority(1_000);
    all[2_000] = Submission::new("charge", &7).deadline_at(1);
    let results = fabric.submit_many(all).await;
    assert_eq!(results.len(), 2_500);
    for (n, result) in results.iter().enumerate() {
        match n {
            1_234 => assert_eq!(result.as_ref().unwrap_err().field(), Some("priority")),
            2_000 => assert_eq!(result.as_ref().unwrap_err().field(), Some("deadline")),
            _ => assert_eq!(
                &*fabric.input(result.as_ref().unwrap().id()).await.unwrap().bytes,
                n.to_string().as_bytes()
            ),
        }
    }
    assert_eq!(fabric.count(&Filter::default()).await.unwrap().count, 2_498);
    assert!(fabric.submit_many(Vec::new()).await.is_empty());
}

#[tokio::test]
async fn a_busy_engine_is_tried_again_for_a_while_and_then_named() {
    let mut config = EngineConfig::default();
    config.machine.queue_max = 1;
    let options = Options::new().engine(config).retry_for(Duration::ZERO);
    let fabric = connect_with("memory:", options.clone()).await.unwrap();
    let crowd = (0..100).map(|n| Submission::new("charge", &n)).collect();
    let results = fabric.submit_many(crowd).await;
    let busy = results.iter().filter_map(|result| result.as_ref().err());
    assert!(busy.clone().count() > 0);
    assert!(busy.into_iter().all(|error| error.code() == "busy" && error.is_retryable()));

    let fabric = connect_with("memory:", options.retry_for(60 * SECOND)).await.unwrap();
    let crowd = (0..20).map(|n| Submission::new("charge", &n)).collect();
    assert!(fabric.submit_many(crowd).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let fabric = TestFabric::new().await;
    fabric.store().faults().lose_answers(1);
    let run = fabric.submit("charge", &7).await.unwrap();
    assert_eq!(run.get().await.unwrap().public_state(), PublicState::Waiting);
    assert_eq!(fabric.count(&Filter::default()).await.unwrap().count, 1);
}

#[tokio::test]
async fn higher_priorities_run_first_and_equal_ones_in_the_order_they_came() {
    let fabric = TestFabric::new().await;
    let priorities = [0, 5, -5, 100, 5, 0];
    for (n, priority) in priorities.iter().enumerate() {
        fabric.submit("note", &n).priority(*priority).await.unwrap();
    }
    let order = Arc::new(Mutex::new(Vec::<usize>::new()));
    let worker = Worker::new(&fabric).concurrency(1).data(order.clone()).on(
        "note",
        |ctx: Context, n: usize| async move {
            ctx.data::<Arc<Mutex<Vec<usize>>>>()?.lock().unwrap().push(n);
            Ok(())
        },
    );
    let worker = start(worker);
    let last = fabric.submit("note", &6).priority(-100).await.unwrap();
    last.result::<()>().await.unwrap();
    assert_eq!(*order.lock().unwrap(), [3, 1, 4, 0, 5, 2, 6]);
    worker.stop().await;
}

#[tokio::test]
async fn delayed_work_starts_at_its_time() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("remind", |_: Context, (): ()| async move { Ok(()) }));
    let later = fabric.submit("remind", &()).delay(60 * SECOND).await.unwrap();
    let at = fabric.submit("remind", &()).run_at(fabric.now() + 60_000).await.unwrap();
    let past = fabric.submit("remind", &()).run_at(1).await.unwrap();
    past.result::<()>().await.unwrap();
    fabric.advance(Duration::from_millis(59_999)).await;
    for run in [&later, &at] {
        assert_eq!(run.get().await.unwrap().reason(), Reason::WaitingForDelay);
    }
    fabric.advance(Duration::from_millis(1)).await;
    for run in [&later, &at] {
        run.result::<()>().await.unwrap();
        let started = run.attempts().await.unwrap()[0].started_at;
        assert_eq!(started, fabric.now());
    }
    worker.stop().await;
}

#[tokio::test]
async fn deadlines_and_waits_for_a_worker_end_expired() {
    let fabric = TestFabric::new().await;
    let deadline = fabric.submit("charge", &1).deadline(60 * SECOND).await.unwrap();
    let start = fabric.submit("charge", &2).schedule_to_start(30 * SECOND).await.unwrap();
    fabric.advance(30 * SECOND).await;
    assert_eq!(start.wait().await.unwrap().execution.reason(), Reason::ScheduleToStartPassed);
    assert_eq!(deadline.get().await.unwrap().public_state(), PublicState::Waiting);
    fabric.advance(30 * SECOND).await;
    let error = deadline.result::<()>().await.unwrap_err();
    assert_eq!(error.to_string(), format!("execution {} expired (deadline_passed)", deadline.id()));
}

#[tokio::test]
async fn work_goes_to_workers_that_have_what_it_needs() {
    let fabric = TestFabric::new().await;
    let worker = |name: &'static str, words: &[&str]| {
        let worker = Worker::new(&fabric).name(name);
        let worker = words.iter().fold(worker, |worker, word| worker.capability(word));
        start(worker.on("render", move |_: Context, (): ()| async move { Ok(name) }))
    };
    let all = [worker("plain", &[]), worker("eu", &["eu"]), worker("both", &["eu", "gpu"])];
    for _ in 0..10 {
        let run = fabric.submit("render", &()).capability("gpu").capability("eu").await.unwrap();
        assert_eq!(run.result::<String>().await.as_deref(), Ok("both"));
        let run = fabric.submit("render", &()).capability("eu").await.unwrap();
        assert_ne!(run.result::<String>().await.as_deref(), Ok("plain"));
    }
    for worker in all {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_fabric_that_was_shut_down_says_so() {
    let fabric = connect("memory:").await.unwrap();
    let run = fabric.submit("charge", &7).await.unwrap();
    fabric.shutdown(SECOND).await;
    fabric.shutdown(SECOND).await;
    assert_eq!(fabric.submit("charge", &7).await.unwrap_err(), Error::ShuttingDown);
    assert_eq!(run.wait().await.unwrap_err(), Error::ShuttingDown);
}
