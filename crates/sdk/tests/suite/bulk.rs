//! The same done to many executions.

use std::time::Duration;

use flowfabric::{Context, Filter, PublicState, Worker};

use crate::background::start;
use crate::ground::TestFabric;

fn of_lane(lane: &str) -> Filter {
    Filter { lane: Some(lane.parse().unwrap()), ..Filter::default() }
}

#[tokio::test]
async fn what_matches_is_cancelled_and_run_again() {
    let fabric = TestFabric::new().await;
    for n in 0..7 {
        fabric.submit("charge", &n).lane("billing").await.unwrap();
    }
    let other = fabric.submit("charge", &7).await.unwrap();
    let cancel = || fabric.bulk().cancel().filter(&of_lane("billing")).actor("ada").cause("closed");
    let preview = cancel().preview().await.unwrap();
    assert_eq!((preview.seen, preview.done, preview.first.len()), (7, 7, 7));
    let run = cancel().await.unwrap();
    let ended = run.wait().await.unwrap();
    assert_eq!((&*ended.state, ended.done, ended.expected), ("finished", 7, Some(7)));
    assert_eq!((&*ended.cause, run.get().await.unwrap().done), ("closed", 7));
    assert_eq!(other.get().await.unwrap().public_state(), PublicState::Waiting);
    let again = cancel().await.unwrap().wait().await.unwrap();
    assert_eq!((again.done, again.skipped.get("already")), (0, Some(&7)));

    // The newest stands first in the list.
    fabric.advance(Duration::from_millis(1)).await;
    let replayed = fabric.bulk().replay().ids(preview.first.clone()).await.unwrap().wait().await.unwrap();
    assert_eq!(replayed.done, 7);
    let worker =
        start(Worker::new(&fabric).lane("billing").on("charge", |_: Context, n: u32| async move { Ok(n) }));
    for id in preview.first {
        let ended = fabric.wait(id).await.unwrap();
        assert_eq!(ended.execution.public_state(), PublicState::Completed);
    }
    worker.stop().await;
    let verbs: Vec<String> = fabric.bulk().list().await.unwrap().into_iter().map(|it| it.verb).collect();
    assert_eq!(verbs, ["replay", "cancel", "cancel"]);
}

#[tokio::test]
async fn a_rate_is_kept_and_an_operation_can_be_stopped() {
    let fabric = TestFabric::new().await;
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(fabric.submit("charge", &n).await.unwrap().id());
    }
    let run = fabric.bulk().set_priority(9).ids(ids.clone()).rate(2).await.unwrap();
    let begun = fabric.now();
    for done in [2, 4] {
        while run.get().await.unwrap().done < done {
            fabric.settle().await;
        }
        assert_eq!(run.get().await.unwrap().done, done);
        fabric.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(run.wait().await.unwrap().done, 6);
    assert_eq!(fabric.now() - begun, 2_000);
    let priorities = fabric.get(ids[5]).await.unwrap().live.priority;
    assert_eq!(priorities, 9);

    let run = fabric.bulk().cancel().ids(ids).rate(1).id("slow").await.unwrap();
    while run.get().await.unwrap().done < 1 {
        fabric.settle().await;
    }
    let stopped = run.stop("bob", "enough").await.unwrap();
    assert_eq!((&*stopped.state, stopped.done, stopped.stopped_by.as_deref()), ("stopped", 1, Some("bob")));
    assert_eq!(run.wait().await.unwrap().done, 1);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name() {
    let fabric = TestFabric::new().await;
    let all = Filter::default();
    assert_eq!(fabric.bulk().cancel().await.unwrap_err().field(), Some("filter"));
    assert_eq!(fabric.bulk().cancel().ids([]).await.unwrap_err().field(), Some("ids"));
    assert_eq!(fabric.bulk().set_priority(101).filter(&all).await.unwrap_err().field(), Some("priority"));
    assert_eq!(
        fabric.bulk().replay().filter(&all).rate(0).preview().await.unwrap_err().field(),
        Some("rate")
    );
    let short = fabric.bulk().replay().filter(&all).grace(Duration::from_secs(1));
    assert_eq!(short.await.unwrap_err().field(), Some("grace_ms"));
    assert_eq!(fabric.bulk().run("none/../x").get().await.unwrap_err().code(), "not_found");
    assert_eq!(fabric.bulk().run("none").stop("ada", "").await.unwrap_err().code(), "not_found");
    assert_eq!(fabric.bulk().run("none").wait().await.unwrap_err().code(), "not_found");
}
