//! Deliveries to a receiver on this machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod encrypted;
mod receiver;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Version;
use ff_core::commands::{SetLane, SetWebhook, TakeWebhook};
use ff_core::registry::Webhook;
use ff_core::suspension::token::Secret;
use ff_engine::{Engine, EngineConfig};
use ff_server::webhooks::{Deliveries, Options, Targets, start};
use ff_store::MemoryStore;

use receiver::{Receiver, SECRET};

async fn engine(store: &MemoryStore) -> Engine {
    Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap()
}

fn serve(engine: &Engine, targets: Targets) -> Deliveries {
    let look_every = Duration::from_millis(10);
    start(engine.clone(), Options { targets, look_every, ..Options::default() })
}

/// Makes an event that names the lane.
async fn event(engine: &Engine, lane: &str) {
    let command = SetLane {
        lane: lane.parse().unwrap(),
        mode: None,
        step_ms: Some(1),
        retention_ms: None,
        renewed_events: None,
        actor: "ada".into(),
        cause: "test".into(),
    };
    engine.execute(command).await.unwrap();
}

/// The webhook as soon as it is as it should be.
async fn webhook_that(engine: &Engine, fits: impl Fn(&Webhook) -> bool) -> Arc<Webhook> {
    loop {
        let webhook = engine.webhook("hook").await.unwrap().unwrap();
        if fits(&webhook) {
            return webhook;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn events_are_delivered_in_order_and_signed() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    engine.set_webhook(receiver.hook()).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    event(&engine, "a").await;
    let first = receiver.next().await;
    assert_eq!((first.path.as_str(), first.lanes()), ("/in?key=1", vec!["a".to_owned()]));
    assert_eq!(first.header("content-type"), "application/json");
    assert!(first.is_signed_with(&SECRET) && !first.is_signed_with(&Secret([8; 32])));
    let names: Vec<String> = (0..250).map(|n| format!("lane {n}")).collect();
    for name in &names {
        event(&engine, name).await;
    }
    let (mut told, mut requests) = (Vec::new(), 1);
    while told.len() < names.len() {
        told.extend(receiver.next().await.lanes());
        requests += 1;
    }
    assert_eq!(told, names);
    let all = webhook_that(&engine, |it| it.tried == requests).await;
    assert!(all.recent.iter().all(|it| it.status == Some(200) && it.attempt == 1), "{all:?}");
    assert_eq!((all.failures, all.next_at), (0, None));
    deliveries.stop().await;
    assert_eq!(engine.webhook("hook").await.unwrap().unwrap().server, None, "others may take it");
}

#[tokio::test]
async fn what_failed_is_sent_again_before_anything_else_and_noted() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    receiver.answer_with(503);
    receiver.answer_at("/other", 204);
    let made = engine.set_webhook(receiver.hook()).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    event(&engine, "a").await;
    let first = receiver.next().await;
    let failed = webhook_that(&engine, |it| it.failures > 0).await;
    assert_eq!((failed.cursor.as_ref(), failed.recent[0].status), (made.cursor.as_ref(), Some(503)));
    assert!(failed.next_at.is_some_and(|at| at > failed.recent[0].at), "{failed:?}");
    event(&engine, "b").await;
    // Whoever changes a webhook need not wait for the next try.
    let url = format!("http://{}/other", receiver.address).into();
    engine.set_webhook(SetWebhook { url, ..receiver.hook() }).await.unwrap();
    let again = loop {
        let again = receiver.next().await;
        assert_eq!(again.lanes()[0], first.lanes()[0], "nothing goes before what failed");
        // On a slow machine it may have been tried once more before the change.
        if again.path == "/other" {
            break again;
        }
    };
    assert!(again.is_signed_with(&SECRET));
    let done = webhook_that(&engine, |it| it.failures == 0 && it.cursor != made.cursor).await;
    assert_eq!(done.recent.last().unwrap().status, Some(204));
    deliveries.stop().await;
}

#[tokio::test]
async fn what_failed_is_sent_again_by_itself_when_its_time_has_come() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    receiver.answer_once_with(500);
    engine.set_webhook(receiver.hook()).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    let started = Instant::now();
    event(&engine, "a").await;
    let first = receiver.next().await;
    event(&engine, "b").await;
    let again = receiver.next().await;
    // Half of the first wait, which is a second, is never cut short.
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    assert_eq!((first.lanes(), again.lanes()), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
    assert!(again.is_signed_with(&SECRET));
    assert_eq!(receiver.lanes(1).await, ["b"]);
    let done = webhook_that(&engine, |it| it.tried == 3).await;
    let tries: Vec<_> = done.recent.iter().map(|it| (it.attempt, it.status, it.events)).collect();
    assert_eq!(tries, [(1, Some(500), 1), (2, Some(200), 1), (1, Some(200), 1)]);
    assert_eq!(done.recent[0].cursor, done.recent[1].cursor, "both carry the same events");
    assert_eq!((done.failures, done.next_at), (0, None));
    deliveries.stop().await;
}

#[tokio::test]
async fn an_answer_counts_although_the_connection_ends_with_it() {
    for version in [Version::HTTP_11, Version::HTTP_10] {
        let engine = engine(&MemoryStore::new(1)).await;
        let mut receiver = Receiver::start().await;
        receiver.close_after_answers_of(version);
        engine.set_webhook(receiver.hook()).await.unwrap();
        let deliveries = serve(&engine, Targets::Any);
        for n in 0..50 {
            let lane = format!("lane {n}");
            event(&engine, &lane).await;
            assert_eq!(receiver.next().await.lanes(), [lane], "{version:?}: each is told once");
        }
        let all = webhook_that(&engine, |it| it.tried == 50).await;
        assert_eq!((all.recent.len(), all.failures), (50, 0), "{version:?}");
        let tried_once = all.recent.iter().all(|it| it.status == Some(200) && it.attempt == 1);
        assert!(tried_once, "{version:?}: {all:?}");
        deliveries.stop().await;
        assert!(receiver.requests.try_recv().is_err(), "{version:?}: nothing comes twice");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    receiver.answer_with(307);
    engine.set_webhook(receiver.hook()).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    event(&engine, "a").await;
    assert_eq!(receiver.next().await.path, "/in?key=1");
    let failed = webhook_that(&engine, |it| it.failures > 0).await;
    assert_eq!(failed.recent[0].status, Some(307));
    deliveries.stop().await;
    while let Ok(again) = receiver.requests.try_recv() {
        assert_eq!(again.path, "/in?key=1", "nothing is sent anywhere else");
    }
}

#[tokio::test]
async fn private_targets_are_refused_unless_they_are_allowed() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    engine.set_webhook(receiver.hook()).await.unwrap();
    let deliveries = serve(&engine, Targets::Public);
    event(&engine, "a").await;
    let refused = webhook_that(&engine, |it| it.failures > 0).await;
    let error = refused.recent[0].error.as_deref().unwrap();
    assert!(error.contains("127.0.0.1, a loopback address"), "{error}");
    deliveries.stop().await;
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test]
async fn one_of_two_servers_delivers_and_the_other_takes_over() {
    let store = MemoryStore::new(3);
    let (one, two) = (engine(&store).await, engine(&store).await);
    let mut receiver = Receiver::start().await;
    one.set_webhook(receiver.hook()).await.unwrap();
    let first = serve(&one, Targets::Any);
    webhook_that(&one, |it| it.server.as_deref() == Some(one.server())).await;
    let second = serve(&two, Targets::Any);
    for lane in ["a", "b", "c"] {
        event(&two, lane).await;
    }
    let mut lanes = receiver.lanes(3).await;
    lanes.sort_unstable();
    assert_eq!(lanes, ["a", "b", "c"]);
    // A delivery that is cut off before it is noted comes again.
    webhook_that(&one, |it| it.recent.iter().map(|it| it.events).sum::<u32>() == 3).await;
    first.stop().await;
    event(&one, "d").await;
    assert_eq!(receiver.lanes(1).await, ["d"], "each is told once");
    assert_eq!(two.webhook("hook").await.unwrap().unwrap().server.as_deref(), Some(two.server()));
    second.stop().await;
}

#[tokio::test]
async fn a_webhook_of_a_server_that_is_gone_is_taken_over() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    engine.set_webhook(receiver.hook()).await.unwrap();
    let gone = TakeWebhook { webhook: "hook".into(), before: None, server: Some("gone".into()) };
    engine.execute(gone).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    event(&engine, "a").await;
    assert_eq!(receiver.lanes(1).await, ["a"]);
    deliveries.stop().await;
}

#[tokio::test]
async fn a_paused_webhook_gets_nothing_until_it_goes_on() {
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::start().await;
    engine.set_webhook(SetWebhook { paused: true, ..receiver.hook() }).await.unwrap();
    let deliveries = serve(&engine, Targets::Any);
    event(&engine, "a").await;
    engine.set_webhook(receiver.hook()).await.unwrap();
    assert_eq!(receiver.lanes(1).await, ["a"], "what happened meanwhile is not lost");
    engine.remove_webhook("hook", "ada", "done").await.unwrap();
    deliveries.stop().await;
    assert!(receiver.requests.try_recv().is_err());
}
