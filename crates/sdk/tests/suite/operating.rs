//! Operators: replay, hold, lanes, tags, removal, explanations, listing.

use std::time::Duration;

use flowfabric::{
    Context, Error, Fatal, Filter, LaneMode, LaneSettings, Options, PageCursor, PublicState, Reason,
    Rejection, Run, Worker,
};

use crate::background::start;
use crate::ground::TestFabric;

const SECOND: Duration = Duration::from_secs(1);

/// The details of the gates that hold an execution back.
async fn blocking(run: &Run) -> Vec<String> {
    let gates = run.explain().await.unwrap().gates;
    gates.into_iter().filter(|gate| gate.blocking).map(|gate| gate.detail).collect()
}

#[tokio::test]
async fn a_replay_runs_again_and_gives_the_new_result() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("charge", |ctx: Context, (): ()| async move {
        match ctx.attempt() {
            1 => Err(Fatal("card declined").code("declined")),
            attempt => Ok(attempt),
        }
    }));
    let run = fabric.submit("charge", &()).await.unwrap();
    assert!(run.result::<u32>().await.is_err());
    run.replay().actor("ada").cause("new card").await.unwrap();
    assert_eq!(run.result::<u32>().await, Ok(2));
    run.replay().await.unwrap();
    assert_eq!(run.result::<u32>().await, Ok(3));
    assert_eq!(run.attempts().await.unwrap().iter().map(|it| it.series).collect::<Vec<_>>(), [1, 2, 3]);
    worker.stop().await;
}

#[tokio::test]
async fn what_is_not_allowed_says_why() {
    let fabric = TestFabric::new().await;
    let run = fabric.submit("charge", &()).await.unwrap();
    let id = run.id();
    assert_eq!(run.replay().await.unwrap_err().code(), "not_terminal");
    assert_eq!(fabric.revoke(id).await.unwrap_err().code(), "not_active");
    assert_eq!(fabric.remove(id).await.unwrap_err().code(), "not_terminal");
    assert_eq!(fabric.set_priority(id, 101).await.unwrap_err().field(), Some("priority"));
    assert_eq!(fabric.tag(id, [("Bad", Some("x"))]).await.unwrap_err().field(), Some("tags"));
    assert_eq!(run.cancel().cause(&"x".repeat(1_000)).await.unwrap_err().field(), Some("cause"));
    run.cancel().await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(fabric.hold(id).await.unwrap_err().code(), "terminal");
    assert_eq!(fabric.set_priority(id, 1).await.unwrap_err().code(), "terminal");
    fabric.remove(id).await.unwrap();
    for error in [
        run.get().await.unwrap_err(),
        run.wait().await.unwrap_err(),
        run.attempts().await.unwrap_err(),
        run.explain().await.unwrap_err(),
        run.watch().await.unwrap_err(),
        run.cancel().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Rejected(Rejection::NotFound { .. })), "{error}");
    }
}

#[tokio::test]
async fn explanations_name_what_is_in_the_way() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let run = fabric.submit("render", &()).lane("gpu").capability("a100").await.unwrap();
    assert_eq!(blocking(&run).await, ["no worker serves the lane gpu"]);

    let worker =
        start(Worker::new(&fabric).lane("gpu").on("render", |_: Context, (): ()| async move { Ok(()) }));
    fabric.submit("render", &()).lane("gpu").await.unwrap().result::<()>().await.unwrap();
    assert_eq!(run.explain().await.unwrap().reason, "no_capable_worker");
    assert_eq!(blocking(&run).await, ["none of 1 workers on the lane has a100"]);
    worker.stop().await;

    fabric.hold(run.id()).actor("ada").cause("costs too much").await.unwrap();
    let detail = &blocking(&run).await[0];
    assert!(detail.contains("by \"ada\": \"costs too much\""), "{detail}");
    fabric.unhold(run.id()).await.unwrap();

    let later = fabric.submit("render", &()).delay(90 * SECOND).await.unwrap();
    assert!(blocking(&later).await[0].contains("in 90s (waiting_for_delay)"));
    later.cancel().await.unwrap();
    assert!(blocking(&later).await[0].contains("replay it to run it again"));
}

#[tokio::test]
async fn a_lane_is_paused_drained_and_resumed() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let worker =
        start(Worker::new(&fabric).lane("billing").on("charge", |_: Context, n: u32| async move { Ok(n) }));
    fabric.lane("billing").pause().actor("ada").cause("the bank is closed").await.unwrap();
    let mut runs = Vec::new();
    for n in 0..6 {
        runs.push(fabric.submit("charge", &n).lane("billing").await.unwrap());
    }
    fabric.settle().await;
    for run in &runs {
        let why = run.explain().await.unwrap();
        assert_eq!((&*why.state, why.reason.as_str()), ("waiting", "lane_paused"));
    }
    assert_eq!(fabric.lanes().await.unwrap()[0].mode, LaneMode::Paused);

    fabric.lane("billing").drain().await.unwrap();
    for run in &runs {
        run.result::<u32>().await.unwrap();
    }
    let error = fabric.submit("charge", &7).lane("billing").await.unwrap_err();
    assert_eq!(error.code(), "lane_draining");
    fabric.lane("billing").resume().await.unwrap();
    fabric.submit("charge", &7).lane("billing").await.unwrap().result::<u32>().await.unwrap();
    worker.stop().await;
}

#[tokio::test]
async fn ended_work_is_removed_after_its_lanes_retention() {
    let fabric = TestFabric::new().await;
    let retention = Some(3600 * SECOND);
    fabric.lane("short").set(LaneSettings { retention, ..LaneSettings::default() }).await.unwrap();
    let run = fabric.submit("charge", &()).lane("short").await.unwrap();
    run.cancel().await.unwrap();
    fabric.advance(3599 * SECOND).await;
    assert_eq!(run.get().await.unwrap().reason(), Reason::CancelledByRequest);
    fabric.advance(3600 * SECOND).await;
    assert_eq!(run.get().await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn pages_go_both_ways_and_meet() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..25 {
        let lane = if n % 5 == 4 { "other" } else { "mine" };
        fabric.advance(Duration::from_millis(1)).await;
        let run = fabric.submit("charge", &n).lane(lane).tag("n", &n.to_string()).await.unwrap();
        if lane == "mine" {
            ids.push(run.id());
        }
    }
    for oldest_first in [true, false] {
        let list = |cursor: Option<PageCursor>| {
            let list = fabric.search().lane("mine").limit(7);
            let list = if oldest_first { list.oldest_first() } else { list };
            match cursor {
                // A cursor is a text to those who keep it.
                Some(cursor) => list.cursor(cursor.to_string().parse().unwrap()),
                None => list,
            }
        };
        let mut pages = vec![list(None).await.unwrap()];
        while let Some(next) = pages.last().unwrap().next {
            pages.push(list(Some(next)).await.unwrap());
        }
        let there: Vec<_> = pages.iter().flat_map(|page| &page.executions).map(|it| it.id).collect();
        let mut wanted = ids.clone();
        if !oldest_first {
            wanted.reverse();
        }
        assert_eq!(there, wanted);
        for n in (1..pages.len()).rev() {
            let back = list(Some(pages[n].previous.unwrap())).await.unwrap();
            assert_eq!(back.executions, pages[n - 1].executions);
        }
        assert!(pages[0].previous.is_none());
    }
    let tagged = fabric.search().tag("n", "7").await.unwrap();
    assert_eq!(tagged.executions.len(), 1);
    let filter = Filter { tags: vec![("n".to_owned(), "7".to_owned())], ..Filter::default() };
    assert_eq!(fabric.count(&filter).await.unwrap().count, 1);
    assert_eq!(fabric.count(&Filter::default()).await.unwrap().count, 25);
    assert_eq!(fabric.search().lane("").await.unwrap_err().field(), Some("lane"));
    assert_eq!("x".parse::<PageCursor>().unwrap_err().field(), Some("cursor"));
}

#[tokio::test]
async fn failed_work_is_found_by_its_error() {
    let fabric = TestFabric::new().await;
    let worker = start(Worker::new(&fabric).on("charge", |_: Context, code: String| async move {
        Err::<(), _>(Fatal(format!("The bank said {code}")).code(&code))
    }));
    for code in ["declined", "closed"] {
        fabric.submit("charge", code).await.unwrap().wait().await.unwrap();
    }
    let by_code = fabric.search().state(PublicState::Failed).error_code("declined").await.unwrap();
    let by_text = fabric.search().error_text("bank SAID declined").await.unwrap();
    assert_eq!((by_code.executions.len(), &by_code.executions), (1, &by_text.executions));
    worker.stop().await;
}

#[tokio::test]
async fn tags_are_set_and_removed() {
    let fabric = TestFabric::new().await;
    let run = fabric.submit("charge", &()).tag("team", "a").tag("step", "1").await.unwrap();
    let changed = fabric.tag(run.id(), [("team", Some("b")), ("step", None)]).actor("ada").await.unwrap();
    assert_eq!(changed.live.tags.iter().collect::<Vec<_>>(), [("team", "b")]);
}
