//! How attempts end: results, failures of every class, panics, delays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flowfabric::{
    AttemptOutcome, Context, Error, Fatal, Limits, NotCompleted, Options, Outcome, Payload, Reason,
    RetryAfter, Retryable, Run, TaskFailure, Worker,
};

use crate::background::{fixed, start};
use crate::ground::TestFabric;

const SECOND: Duration = Duration::from_secs(1);

/// Waits until an execution has been tried so often and is put off.
async fn put_off(run: &Run, attempts: u32) {
    let mut watch = run.watch().await.unwrap();
    while let Some(execution) = watch.next().await.unwrap() {
        let is_delayed = execution.public_state().word() == "delayed";
        if is_delayed && execution.attempt_number() == attempts {
            return;
        }
    }
    panic!("it has ended: {:?}", run.get().await);
}

fn failure(error: Error) -> NotCompleted {
    match error {
        Error::NotCompleted(ending) => *ending,
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_failure_is_tried_again_after_its_backoff() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("flaky", |ctx: Context, (): ()| async move {
        if ctx.attempt() < 3 {
            Err(std::io::Error::other(format!("try {}", ctx.attempt())))?;
        }
        assert!(ctx.is_last_attempt());
        Ok(ctx.attempt())
    }));
    let run = fabric.submit("flaky", &()).attempts(3).backoff(fixed(10 * SECOND)).await.unwrap();
    for attempt in 1..3 {
        put_off(&run, attempt).await;
        fabric.advance(9 * SECOND).await;
        assert_eq!(run.get().await.unwrap().reason(), Reason::RetryBackoff);
        fabric.advance(SECOND).await;
    }
    assert_eq!(run.result::<u32>().await, Ok(3));
    let attempts = run.attempts().await.unwrap();
    let errors: Vec<_> = attempts.iter().map(|it| it.end.as_ref().unwrap().error.as_ref()).collect();
    let messages: Vec<_> = errors.iter().map(|it| it.map(|error| &*error.message)).collect();
    assert_eq!(messages, [Some("try 1"), Some("try 2"), None]);
    worker.stop().await;
}

#[tokio::test]
async fn with_no_attempt_left_the_last_error_is_the_answer() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("never", |_: Context, (): ()| async move {
        Err::<(), _>(Retryable("the bank is closed").code("bank_closed"))
    }));
    let run = fabric.submit("never", &()).attempts(1).await.unwrap();
    let error = run.result::<()>().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("execution {} failed (attempts_exhausted): the bank is closed [bank_closed]", run.id())
    );
    assert_eq!(failure(error).reason, Reason::AttemptsExhausted);
    worker.stop().await;
}

#[tokio::test]
async fn a_fatal_failure_is_not_tried_again() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("parse", |_: Context, text: String| async move {
        let number: u64 = text.parse().map_err(Fatal)?;
        Ok(number)
    }));
    let run = fabric.submit("parse", "seven").await.unwrap();
    let ending = failure(run.result::<u64>().await.unwrap_err());
    assert_eq!(ending.reason, Reason::FatalError);
    assert!(ending.error.unwrap().message.contains("invalid digit"));
    assert_eq!(run.attempts().await.unwrap().len(), 1);
    worker.stop().await;
}

#[tokio::test]
async fn retry_after_wins_over_the_backoff() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("rates", |ctx: Context, (): ()| async move {
        match ctx.attempt() {
            1 => Err(RetryAfter(60 * SECOND, "no rates yet").into()),
            _ => Ok("rates"),
        }
    }));
    let run = fabric.submit("rates", &()).backoff(fixed(SECOND)).await.unwrap();
    put_off(&run, 1).await;
    fabric.advance(59 * SECOND).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::RetryBackoff);
    fabric.advance(SECOND).await;
    assert_eq!(run.result::<String>().await.as_deref(), Ok("rates"));
    worker.stop().await;
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_worker_goes_on() {
    let fabric = TestFabric::new().await;
    let worker = start(
        Worker::new(&fabric)
            .concurrency(1)
            .on("later", |_: Context, n: u32| async move {
                assert_ne!(n, 1, "one is not allowed");
                Ok(n)
            })
            .on("at_once", |_: Context, n: u32| {
                assert_ne!(n, 1, "not even here");
                async move { Ok(n) }
            }),
    );
    for (kind, text) in [("later", "one is not allowed"), ("at_once", "not even here")] {
        let bad = fabric.submit(kind, &1).attempts(1).await.unwrap();
        let error = failure(bad.result::<u32>().await.unwrap_err()).error.unwrap();
        assert_eq!(error.code.as_deref(), Some("panic"));
        assert!(error.message.contains(text), "{}", error.message);
        let good = fabric.submit(kind, &2).await.unwrap();
        assert_eq!(good.result::<u32>().await, Ok(2));
    }
    worker.stop().await;
}

#[tokio::test]
async fn an_input_that_cannot_be_read_is_fatal() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("charge", |_: Context, n: u32| async move { Ok(n) }));
    let text = fabric.submit("charge", "seven").await.unwrap();
    let bytes = fabric.submit_bytes("charge", "image/png", &b"7"[..]).await.unwrap();
    for (run, problem) in [(text, "expected u32"), (bytes, "image/png")] {
        let ending = failure(run.result::<u32>().await.unwrap_err());
        let error = ending.error.unwrap();
        assert_eq!((ending.reason, error.code.as_deref()), (Reason::FatalError, Some("bad_input")));
        assert!(error.message.contains(problem), "{}", error.message);
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_with_the_limit_named() {
    let limits = Limits { result_bytes_max: 10, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let worker =
        start(Worker::new(&fabric).on("talk", |_: Context, n: usize| async move { Ok("x".repeat(n)) }));
    let run = fabric.submit("talk", &100).await.unwrap();
    let error = failure(run.result::<String>().await.unwrap_err()).error.unwrap();
    assert_eq!(error.code.as_deref(), Some("bad_result"));
    assert_eq!(&*error.message, "result has 102 bytes; allowed are at most 10");
    worker.stop().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_is_made_to_fit() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("shout", |_: Context, (): ()| async move {
        Err::<(), TaskFailure>(Fatal(format!("\0{}", "é".repeat(100_000))).into())
    }));
    let run = fabric.submit("shout", &()).await.unwrap();
    let error = failure(run.result::<()>().await.unwrap_err()).error.unwrap();
    assert!(error.message.starts_with(" é") && error.message.len() <= 16 << 10);
    worker.stop().await;
}

#[tokio::test]
async fn a_delay_goes_on_with_the_same_attempt() {
    let fabric = TestFabric::new().await;
    let calls = Arc::new(AtomicU32::new(0));
    let worker =
        start(Worker::new(&fabric).data(calls.clone()).on("wait", |ctx: Context, (): ()| async move {
            match ctx.data::<Arc<AtomicU32>>()?.fetch_add(1, Ordering::SeqCst) {
                0 => Ok(ctx.delay(3600 * SECOND)),
                _ => Ok(Outcome::Done(ctx.attempt())),
            }
        }));
    let run = fabric.submit("wait", &()).attempts(1).await.unwrap();
    put_off(&run, 1).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::ResumeDelay);
    fabric.advance(3600 * SECOND).await;
    assert_eq!(run.result::<u32>().await, Ok(1));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    worker.stop().await;
}

#[tokio::test]
async fn bytes_go_in_and_out_as_they_are() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on_raw("turn", |_: Context, input: Payload| async move {
        let mut bytes = input.bytes.to_vec();
        bytes.reverse();
        Ok(Outcome::Done(Payload { bytes: bytes.into(), ..input }))
    }));
    let run = fabric.submit_bytes("turn", "image/png", &[1u8, 0, 255][..]).await.unwrap();
    let result = run.wait().await.unwrap().result.unwrap();
    assert_eq!((&*result.content_type, &*result.bytes), ("image/png", &[255u8, 0, 1][..]));
    worker.stop().await;
}

#[tokio::test]
async fn progress_and_status_are_in_the_record() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("copy", |ctx: Context, (): ()| async move {
        ctx.status("copying").await;
        ctx.progress(200, &"x".repeat(10_000)).await;
        Ok(())
    }));
    let run = fabric.submit("copy", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let attempt = run.attempts().await.unwrap().pop().unwrap();
    let progress = attempt.progress.unwrap();
    assert_eq!((progress.percent, progress.status.as_deref()), (Some(100), Some("copying")));
    assert_eq!(progress.message.unwrap().len(), 1024);
    assert_eq!(attempt.end.unwrap().outcome, AttemptOutcome::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn work_of_other_kinds_is_left_alone() {
    let fabric = TestFabric::new().await;
    let other = fabric.submit("other", &()).await.unwrap();
    let worker = start(Worker::new(&fabric).on("mine", |_: Context, (): ()| async move { Ok(()) }));
    fabric.submit("mine", &()).await.unwrap().result::<()>().await.unwrap();
    assert_eq!(other.get().await.unwrap().attempt_number(), 0);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_cannot_work_says_why() {
    let fabric = TestFabric::new().await;
    let worker = || Worker::new(&fabric).on("k", |_: Context, (): ()| async move { Ok(()) });
    let cases = [
        (Worker::new(&fabric), "kind is missing: give the worker a handler with .on(kind, handler)"),
        (worker().concurrency(0), "concurrency is 0; allowed are 1 and more"),
        (worker().lane("\n"), "lane contains '\\n'; allowed are printable characters"),
        (worker().name("a b"), "worker contains ' '; allowed are printable characters without blanks"),
        (
            worker().on("k", |_: Context, (): ()| async move { Ok(()) }),
            "kind \"k\" has two handlers; give it one",
        ),
    ];
    for (worker, text) in cases {
        assert_eq!(worker.run_until(std::future::pending()).await.unwrap_err().to_string(), text);
    }
}
