//! Webhooks, dead letters, and what the engine says of itself.

use ff_core::inbox::Posted;
use flowfabric::{CancelPolicy, ExecutionId, FlowState, Payload, WebhookSettings};

use crate::ground::TestFabric;

fn settings(url: &str) -> WebhookSettings {
    WebhookSettings {
        url: url.to_owned(),
        families: Vec::new(),
        namespace: None,
        lane: None,
        facts: vec!["failed".to_owned()],
        paused: false,
        begin: None,
        new_secret: false,
        actor: Some("ada".to_owned()),
        cause: None,
    }
}

#[tokio::test]
async fn a_webhook_is_made_changed_and_removed() {
    let fabric = TestFabric::new().await;
    let (made, secret) = fabric.set_webhook("chat", settings("https://example.org/a")).await.unwrap();
    assert_eq!((secret.map(|it| it.len()), made.paused, &*made.created_by), (Some(64), false, "ada"));
    let (changed, secret) = fabric.set_webhook("chat", settings("https://example.org/b")).await.unwrap();
    assert_eq!((secret, &*changed.url), (None, "https://example.org/b"));
    assert_eq!(fabric.webhook("chat").await.unwrap().facts, ["failed"]);
    assert_eq!(fabric.webhooks().await.unwrap().len(), 1);
    let wrong = fabric.set_webhook("chat", settings("ftp://example.org")).await;
    assert_eq!(wrong.unwrap_err().field(), Some("url"));
    fabric.remove_webhook("chat", "ada", "done").await.unwrap();
    assert_eq!(fabric.webhook("chat").await.unwrap_err().code(), "not_found");
    assert_eq!(fabric.remove_webhook("chat", "ada", "").await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn dead_letters_are_found_posted_again_and_dropped() {
    let fabric = TestFabric::new().await;
    for number in [3, 4] {
        fabric.store().post(Posted {
            number,
            id: Some(ExecutionId::from_parts(1, ff_core::Route(0), number)),
            posted_at: 1,
            kind: "work".to_owned(),
            input: Payload::json("1"),
            namespace: None,
            lane: None,
            key: None,
            options: Some(r#"{"priority":1000}"#.to_owned()),
        });
    }
    fabric.settle().await;
    let numbers: Vec<u64> =
        fabric.letters(0, 10).await.unwrap().iter().map(|letter| letter.posted.number).collect();
    assert_eq!(numbers, [3, 4]);
    assert_eq!(fabric.letters(3, 10).await.unwrap().len(), 1);
    let letter = fabric.letter(3).await.unwrap();
    assert_eq!(letter.content().posted.input, Payload::json("1"));
    letter.drop().await.unwrap();
    assert_eq!(fabric.letter(3).await.unwrap_err().code(), "not_found");
    fabric.letter(4).await.unwrap().repost().actor("ada").await.unwrap();
    fabric.settle().await;
    assert_eq!(fabric.letters(0, 10).await.unwrap().len(), 1, "it is as wrong as it was");
}

#[tokio::test]
async fn the_engine_says_what_it_has_done() {
    let fabric = TestFabric::new().await;
    fabric.submit("charge", &1).await.unwrap();
    assert!(fabric.stats().await.unwrap().commands >= 1);
}

#[tokio::test]
async fn a_flow_is_cancelled_and_waited_for_in_one_go() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("trip");
    flow.node("charge", &1);
    let run = flow.submit().await.unwrap();
    let ended = run.cancel(CancelPolicy::CancelAll).cause("enough").until_ended().await.unwrap();
    assert_eq!(ended.state(), FlowState::Cancelled);
}
