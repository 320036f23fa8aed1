//! Dead letters of the inbox over HTTP, and what the engine says of itself.

use ff_core::inbox::Posted;
use ff_core::registry::Role;
use ff_core::{ExecutionId, Payload, Route};
use ff_server::access::{May, allows};
use serde_json::json;

use crate::stand::Stand;

/// Posts a row that cannot become an execution, and waits until that is known.
async fn post(stand: &Stand, number: u64, namespace: Option<&str>) {
    stand.store.post(Posted {
        number,
        id: Some(ExecutionId::from_parts(1, Route(0), number)),
        posted_at: 1,
        kind: "work".to_owned(),
        input: Payload::json(r#"{"secret":true}"#),
        namespace: namespace.map(str::to_owned),
        lane: None,
        key: None,
        options: Some(r#"{"priority":1000}"#.to_owned()),
    });
    while stand.engine.dead_letter(number).await.unwrap().is_none() {
        stand.engine.nudge().await;
    }
}

#[tokio::test]
async fn letters_are_listed_posted_again_and_dropped() {
    let stand = Stand::new().await;
    for number in [7, 8, 9] {
        post(&stand, number, None).await;
    }
    let page = stand.get("/v1/dead-letters?limit=2").await.good();
    assert_eq!((&page["dead_letters"][1]["number"], &page["next_after"]), (&8.into(), &8.into()));
    let rest = stand.get("/v1/dead-letters?limit=2&after=8").await.good();
    assert_eq!((&rest["dead_letters"][0]["number"], &rest["next_after"]), (&9.into(), &json!(null)));
    let letter = stand.get("/v1/dead-letters/8").await.good();
    assert_eq!((&letter["kind"], &letter["input"]), (&"work".into(), &json!({ "secret": true })));
    assert!(letter["reason"].as_str().unwrap().contains("priority is 1000"), "{letter}");
    let gone = stand.send("DELETE", "/v1/dead-letters/8", Some(json!({})), &[]).await.good();
    assert_eq!(gone["done"], true);
    assert_eq!(stand.get("/v1/dead-letters/8").await.problem(), (404, "not_found".into()));
    stand.post("/v1/dead-letters/9/repost", json!({ "actor": "ada" })).await.good();
    // It is as wrong as it was.
    while stand.engine.dead_letter(9).await.unwrap().is_none() {
        stand.engine.nudge().await;
    }
    let events = stand.get("/v1/events?start=beginning&limit=100").await.good().to_string();
    assert!(events.contains("letter_reposted") && events.contains("ada"), "{events}");
}

#[tokio::test]
async fn letters_of_other_namespaces_are_not_there_and_viewers_see_no_input() {
    let stand = Stand::guarded().await;
    post(&stand, 1, Some("theirs")).await;
    post(&stand, 2, Some("no namespace\n")).await;
    post(&stand, 3, Some("ours")).await;
    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let ours = format!("Bearer {}", stand.token(role, &["ours"]).await);
        let headers = [("authorization", ours.as_str())];
        let page = stand.send("GET", "/v1/dead-letters", None, &headers).await.good();
        let numbers: Vec<_> =
            page["dead_letters"].as_array().unwrap().iter().map(|it| &it["number"]).collect();
        assert_eq!(numbers, [3], "{role}");
        for number in [1, 2] {
            let path = format!("/v1/dead-letters/{number}");
            assert_eq!(stand.send("GET", &path, None, &headers).await.status, 404, "{role}");
            let refused = if allows(role, May::Operate) { 404 } else { 403 };
            let dropped = stand.send("DELETE", &path, Some(json!({})), &headers).await;
            let repost = stand.send("POST", &format!("{path}/repost"), Some(json!({})), &headers).await;
            assert_eq!((dropped.status, repost.status), (refused, refused), "{role}");
        }
    }
    for number in [1, 2, 3] {
        assert!(stand.engine.dead_letter(number).await.unwrap().is_some(), "nobody has touched {number}");
    }
    let viewer = format!("Bearer {}", stand.token(Role::Viewer, &[]).await);
    for accept in ["application/json", "application/vnd.flowfabric.record+json"] {
        for path in ["/v1/dead-letters", "/v1/dead-letters/1"] {
            let headers = [("authorization", viewer.as_str()), ("accept", accept)];
            let answer = stand.send("GET", path, None, &headers).await;
            assert_eq!(answer.status, 200);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!text.contains("secret") && !text.contains(r#"\"priority\""#), "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn what_waits_in_the_engine_is_told_to_those_who_see_all() {
    let stand = Stand::guarded().await;
    let [all, some] = [stand.token(Role::Viewer, &[]).await, stand.token(Role::Viewer, &["ours"]).await]
        .map(|secret| format!("Bearer {secret}"));
    let stats = stand.send("GET", "/v1/stats", None, &[("authorization", &all)]).await.good();
    assert!(stats["commands"].as_u64().unwrap() > 0 && stats["queued"].is_u64(), "{stats}");
    assert_eq!(stand.send("GET", "/v1/stats", None, &[("authorization", &some)]).await.status, 403);
}
