//! Output streams: what handlers emit and others read.

use std::time::Duration;

use flowfabric::{
    AttemptOutcome, Context, Error, FrameMode, Output, Place, PublicState, Retryable, Run, TaskFailure,
    Worker,
};
use serde_json::json;

use crate::background::{fixed, start};
use crate::ground::TestFabric;

const SECOND: Duration = Duration::from_secs(1);

/// Everything from a place on, as text.
async fn read(run: &Run, after: Option<Place>) -> Vec<String> {
    let mut tail = run.tail(after).await.unwrap();
    let mut said = Vec::new();
    while let Some(output) = tail.next().await.unwrap() {
        said.push(match output {
            Output::Frame(frame) => {
                format!("{}:{} {}", frame.attempt, frame.number, String::from_utf8_lossy(&frame.bytes))
            }
            Output::Closed { attempt, outcome } => format!("{attempt} {}", outcome.word()),
            Output::Ended(state) => state.word().to_owned(),
        });
    }
    said
}

#[tokio::test]
async fn what_is_emitted_is_read_in_order_and_closed_with_its_attempt() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("write", |ctx: Context, count: u32| async move {
        for n in 0..count {
            ctx.emit("line", format!("{n}")).await?;
        }
        if ctx.attempt() == 1 { Err(Retryable("again").into()) } else { Ok(()) }
    });
    let running = start(worker);
    let run = fabric.submit("write", &3).backoff(fixed(Duration::ZERO)).await.unwrap();
    let reading = tokio::spawn({
        let run = run.clone();
        async move { read(&run, None).await }
    });
    let all = reading.await.unwrap();
    let wanted =
        ["1:1 0", "1:2 1", "1:3 2", "1 failed", "2:1 0", "2:2 1", "2:3 2", "2 completed", "completed"];
    assert_eq!(all, wanted);
    // Whoever goes on from a place gets exactly the rest.
    assert_eq!(read(&run, Some("1:2".parse().unwrap())).await, wanted[2..]);
    assert_eq!(read(&run, Some("2:3".parse().unwrap())).await, wanted[7..]);
    for missing in ["0:1", "4:0", "99:7"] {
        let told = match run.tail(Some(missing.parse().unwrap())).await {
            Ok(mut tail) => tail.next().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(told.code(), "not_found", "{missing}: {told}");
        let attempt = missing.split_once(':').unwrap().0;
        assert!(told.to_string().contains(&format!("attempt {attempt} of {}", run.id())), "{told}");
    }
    running.stop().await;
}

#[tokio::test]
async fn thousands_of_frames_are_stored_once_each_although_answers_are_lost() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("write", |ctx: Context, count: u32| async move {
        for n in 0..count {
            ctx.emit("line", format!("{n}")).await?;
        }
        Ok(())
    });
    fabric.store().faults().lose_answers(3);
    let running = start(worker);
    let run = fabric.submit("write", &5_000).await.unwrap();
    run.result::<()>().await.unwrap();
    let mut numbers = Vec::new();
    loop {
        let after = numbers.len() as u64;
        let page = run.frames().attempt(1).after(after).await.unwrap();
        if page.is_empty() {
            break;
        }
        numbers.extend(
            page.iter().map(|frame| (frame.number, String::from_utf8_lossy(&frame.bytes).into_owned())),
        );
    }
    let wanted: Vec<_> = (0..5_000).map(|n: u64| (n + 1, n.to_string())).collect();
    assert_eq!(numbers, wanted);
    let newest: Vec<u64> =
        run.frames().newest_first().limit(2).await.unwrap().iter().map(|it| it.number).collect();
    assert_eq!(newest, [5_000, 4_999]);
    running.stop().await;
}

#[tokio::test]
async fn an_attempt_that_goes_on_after_a_wait_goes_on_counting() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("write", |ctx: Context, (): ()| async move {
        ctx.step("before", async || ctx.emit("line", "before").await).await?;
        ctx.wait_for_signal::<()>("go-on").await?;
        ctx.emit("line", "after").await?;
        ctx.flush().await
    });
    let running = start(worker);
    let run = fabric.submit("write", &()).await.unwrap();
    run.signal("go-on").await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(read(&run, None).await, ["1:1 before", "1:2 after", "1 completed", "completed"]);
    running.stop().await;
}

#[tokio::test]
async fn a_summary_is_patched_and_a_brief_frame_goes_soon() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("write", |ctx: Context, (): ()| async move {
        ctx.summary(&json!({ "words": 1, "draft": true })).await?;
        ctx.summary(&json!({ "words": 2, "draft": null })).await?;
        ctx.emit_briefly("tick", "1").await?;
        ctx.emit_json("line", &json!({ "n": 1 })).await
    });
    let running = start(worker);
    let run = fabric.submit("write", &()).await.unwrap();
    assert!(run.summary().await.unwrap().is_none());
    run.result::<()>().await.unwrap();
    let summary = run.summary().await.unwrap().unwrap();
    assert_eq!((summary.version, summary.document.get()), (2, r#"{"words":2}"#));
    let modes = |frames: Vec<flowfabric::Frame>| frames.iter().map(|it| it.mode).collect::<Vec<_>>();
    let all = [FrameMode::Summary, FrameMode::Summary, FrameMode::BestEffort, FrameMode::Durable];
    assert_eq!(modes(run.frames().await.unwrap()), all);
    running.stop().await;
    fabric.advance(SECOND * 24 * 3600).await;
    assert_eq!(modes(run.frames().await.unwrap()), [all[0], all[1], all[3]]);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_where_it_is_emitted() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("write", |ctx: Context, which: String| async move {
        ctx.emit("line", "good").await?;
        match &*which {
            "large" => ctx.emit("line", vec![b'x'; 65_537]).await?,
            "kind" => ctx.emit("two words", "x").await?,
            "deep" => {
                let patch = (0..17).fold(json!(1), |inner, _| json!({ "a": inner }));
                ctx.summary(&patch).await?;
            }
            _ => {
                // Each patch fits; the document they make does not.
                for n in 0..40 {
                    ctx.summary(&json!({ format!("part{n}"): "x".repeat(60_000) })).await?;
                }
                ctx.flush().await?;
            }
        }
        Ok::<_, TaskFailure>(())
    });
    let running = start(worker);
    let cases = [
        ("large", "frame has 65537 bytes; allowed are at most 65536"),
        ("kind", "kind contains ' '; allowed are printable characters without blanks and commas"),
        ("deep", "patch is nested deeper than 16"),
        ("document", "output was refused: patch makes a document of "),
    ];
    for (which, message) in cases {
        let run = fabric.submit("write", which).await.unwrap();
        let Error::NotCompleted(ending) = run.result::<()>().await.unwrap_err() else { panic!() };
        let error = ending.error.unwrap();
        assert_eq!((ending.state, error.code.as_deref()), (PublicState::Failed, Some("invalid")));
        assert!(error.message.starts_with(message), "{}", error.message);
        assert_eq!(&*run.frames().await.unwrap()[0].bytes, b"good");
    }
    running.stop().await;
}

#[tokio::test]
async fn frames_of_a_worker_that_lost_its_lease_are_refused() {
    let fabric = TestFabric::new().await;
    let (emitted, mut first) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(&fabric).on("write", move |ctx: Context, (): ()| {
        let emitted = emitted.clone();
        async move {
            ctx.emit("line", format!("attempt {}", ctx.attempt())).await?;
            ctx.flush().await?;
            let _ = emitted.send(ctx.clone());
            if ctx.attempt() == 1 { std::future::pending().await } else { Ok(()) }
        }
    });
    let running = start(worker);
    let run = fabric.submit("write", &()).await.unwrap();
    let old = first.recv().await.unwrap();
    fabric.revoke(run.id()).await.unwrap();
    run.result::<()>().await.unwrap();
    old.emit("line", "too late").await.unwrap();
    assert!(old.flush().await.unwrap_err().message().contains("is lost"));
    let all = read(&run, None).await;
    let revoked = format!("1 {}", AttemptOutcome::Revoked.word());
    assert_eq!(all, ["1:1 attempt 1", &revoked, "2:1 attempt 2", "2 completed", "completed"]);
    running.stop().await;
}
