//! Events and watching.

use flowfabric::{Context, EventFilter, Events, Family, Options, Seen, Start, Worker};

use crate::background::start;
use crate::ground::{TestFabric, connect};

async fn take(events: &mut Events, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(events.next().await.unwrap());
    }
    seen
}

#[tokio::test]
async fn events_go_on_exactly_after_any_cursor() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let worker = start(Worker::new(&fabric).on("charge", |_: Context, n: u32| async move { Ok(n) }));
    let filter = EventFilter { families: vec![Family::Execution], ..EventFilter::default() };
    let mut live = fabric.events(filter.clone(), Start::Now).await.unwrap();
    for n in 0..10 {
        fabric.submit("charge", &n).await.unwrap().result::<u32>().await.unwrap();
    }
    // Each is created, started and completed.
    let all = take(&mut live, 30).await;
    for n in 0..30 {
        let after = Start::After(all[n].cursor.to_string().parse().unwrap());
        let mut resumed = fabric.events(filter.clone(), after).await.unwrap();
        let mut rest = take(&mut resumed, 29 - n).await;
        // Partitions may be read in another order; each one's own order stands.
        let key = |seen: &Seen| (seen.event.execution.unwrap().route(), seen.event.number);
        let mut wanted = all[n + 1..].to_vec();
        rest.sort_by_key(key);
        wanted.sort_by_key(key);
        let events = |seen: Vec<Seen>| seen.into_iter().map(|it| it.event).collect::<Vec<_>>();
        assert_eq!(events(rest), events(wanted), "after {n}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn events_can_be_filtered_by_lane_tag_and_execution() {
    let fabric = TestFabric::new().await;
    let first = fabric.submit("charge", &1).lane("a").tag("team", "x").await.unwrap();
    let second = fabric.submit("charge", &2).lane("b").await.unwrap();
    let lane = EventFilter { lane: Some("b".parse().unwrap()), ..EventFilter::default() };
    let tag = EventFilter { tag: Some(("team".into(), "x".into())), ..EventFilter::default() };
    let one = EventFilter { execution: Some(second.id()), ..EventFilter::default() };
    for (filter, wanted) in [(lane, &second), (tag, &first), (one, &second)] {
        let mut events = fabric.events(filter, Start::Beginning).await.unwrap();
        assert_eq!(events.next().await.unwrap().event.execution, Some(wanted.id()));
    }
}

#[tokio::test]
async fn a_cursor_of_another_store_or_none_at_all_is_refused() {
    let (here, there) = (connect("memory:").await.unwrap(), connect("memory:").await.unwrap());
    let cursor = there.events(EventFilter::default(), Start::Now).await.unwrap().cursor().clone();
    let error = here.events(EventFilter::default(), Start::After(cursor)).await.unwrap_err();
    assert_eq!(error.code(), "cursor_other_store");
    assert!("banana".parse::<flowfabric::Cursor>().is_err());
}

#[tokio::test]
async fn a_watch_shows_states_until_the_end() {
    let fabric = TestFabric::new().await;
    let run = fabric.submit("charge", &7).await.unwrap();
    let mut watch = run.watch().await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().public_state().word(), "waiting");
    let worker = start(Worker::new(&fabric).on("charge", |_: Context, n: u32| async move { Ok(n) }));
    let mut words = Vec::new();
    while let Some(execution) = watch.next().await.unwrap() {
        words.push(execution.public_state().word());
    }
    assert_eq!(words.last(), Some(&"completed"));
    let mut again = run.watch().await.unwrap();
    assert_eq!(again.next().await.unwrap().unwrap().public_state().word(), "completed");
    assert!(again.next().await.unwrap().is_none());
    worker.stop().await;
}
