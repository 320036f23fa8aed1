//! The page on which a person decides.

use std::sync::Arc;

use ff_core::limits::Limits;
use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use ff_store::MemoryStore;
use serde_json::json;

use crate::stand::Stand;

async fn waiting(stand: &Stand) -> (String, String) {
    let id = stand.submit(json!({ "kind": "deploy" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let waitpoint = json!({ "name": "approve-<b>deploy</b>", "requester": "mallory" });
    let opened = stand
        .post("/v1/tasks/waitpoint", json!({ "lease": task["lease"], "waitpoint": waitpoint }))
        .await
        .good();
    let suspend =
        json!({ "tasks": [{ "lease": task["lease"], "condition": { "signal": { "waitpoint": 1 } } }] });
    stand.post("/v1/tasks/suspend", suspend).await.good();
    (id, opened["token"].as_str().unwrap().to_owned())
}

async fn decide(stand: &Stand, token: &str, form: &str) -> (u16, String) {
    let request = format!(
        "POST /w/{token} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let answer = stand.raw(request.as_bytes()).await;
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

#[tokio::test]
async fn opening_the_page_decides_nothing_and_its_form_does() {
    let stand = Stand::new().await;
    let (id, token) = waiting(&stand).await;
    let state = async || stand.get(&format!("/v1/executions/{id}")).await.good()["state"].clone();
    for method in ["GET", "HEAD"] {
        let page = stand.send(method, &format!("/w/{token}"), None, &[]).await;
        assert_eq!(page.status, 200);
        assert!(page.head.to_lowercase().contains("referrer-policy: no-referrer"), "{}", page.head);
        assert!(page.head.to_lowercase().contains("frame-ancestors 'none'"), "{}", page.head);
        let text = String::from_utf8_lossy(&page.body).into_owned();
        assert!(method == "HEAD" || text.contains("approve-&lt;b&gt;deploy&lt;/b&gt;"), "{text}");
    }
    assert_eq!(state().await, "suspended");
    assert_eq!(decide(&stand, &token, "decision=maybe&source=ada").await.0, 400);
    assert!(decide(&stand, &token, "decision=approve").await.1.contains("Your name is missing"));
    assert!(decide(&stand, &token, "decision=approve&source=mallory").await.1.contains("Not counted"));
    assert_eq!(state().await, "suspended");
    let (status, text) = decide(&stand, &token, "decision=approve&source=ada&comment=fine").await;
    assert_eq!(status, 200);
    assert!(text.contains("Approved"), "{text}");
    assert_eq!(state().await, "waiting");
    assert!(decide(&stand, &token, "decision=reject&source=bob").await.1.contains("Already decided"));
    let signals = stand.get(&format!("/v1/executions/{id}/signals")).await.good();
    assert_eq!(signals["signals"][0]["payload"], json!({ "approved": true, "comment": "fine" }));
}

#[tokio::test]
async fn the_form_is_taken_from_a_browser_that_does_not_say_where_it_comes_from() {
    for guarded in [false, true] {
        let stand = if guarded { Stand::guarded().await } else { Stand::new().await };
        let origin = "origin: null\r\n";
        let form = "decision=approve&source=ada";
        let decide = async |token: &str| {
            let request = format!(
                "POST /w/{token} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{origin}\
                 content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
                form.len()
            );
            stand.raw(request.as_bytes()).await
        };
        if guarded {
            assert_eq!(decide("v1.1.nobody").await.status, 404);
            continue;
        }
        let (id, token) = waiting(&stand).await;
        let answer = decide(&token).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(stand.get(&format!("/v1/executions/{id}")).await.good()["state"], "waiting");
        let elsewhere = stand.send("GET", "/v1/executions", None, &[("origin", "null")]).await;
        assert_eq!(elsewhere.problem(), (403, "other_site".to_owned()));
    }
}

/// The largest body that is read where signals go.
const LIMIT: usize = 512 << 10;

#[tokio::test]
async fn nobody_sends_more_than_a_signal_to_where_signals_go() {
    let stand = Stand::guarded().await;
    let (form, json) = ("application/x-www-form-urlencoded", "application/json");
    let signal = "/v1/waitpoints/0197f3a2-6f3e-7c41-9b1d-0242ac120002-1/signal";
    for (path, kind) in [("/w/v1.1.nobody", form), (signal, json)] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer v1.1.x\r\n\
             content-type: {kind}\r\ncontent-length: 1000000\r\n\r\n"
        );
        assert_eq!(stand.raw(request.as_bytes()).await.status, 413, "{path}");
        // Without a length that is said, it is the bytes that count. All of them are read before the last is too much.
        let request = request.replace("content-length: 1000000", "transfer-encoding: chunked");
        let chunk = format!("{request}{:x}\r\n{}", LIMIT + 1, "x".repeat(LIMIT + 1));
        assert_eq!(stand.raw(chunk.as_bytes()).await.status, 413, "{path}");
    }
    let long = format!("decision=approve&source=ada&comment={}", "x".repeat(9_000));
    assert_eq!(decide(&stand, "v1.1.nobody", &long).await.0, 413);
}

#[tokio::test]
async fn every_wrong_link_gets_the_same_page() {
    let stand = Stand::new().await;
    let (_, token) = waiting(&stand).await;
    let mut forged = token.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == '0' { '1' } else { '0' });
    let pages: Vec<_> = [forged.as_str(), "nonsense", "v1.9.x.y"].into_iter().map(str::to_owned).collect();
    let mut seen = Vec::new();
    for link in pages {
        let page = stand.get(&format!("/w/{link}")).await;
        let (status, text) = decide(&stand, &link, "decision=approve&source=ada").await;
        seen.push((page.status, page.body, status, text));
    }
    assert!(seen.iter().all(|it| it.0 == 404 && it.2 == 404));
    assert!(seen.windows(2).all(|two| two[0] == two[1]));
}

#[tokio::test]
async fn whoever_has_a_good_link_is_told_what_keeps_the_decision() {
    let store = MemoryStore::new(1);
    let limits = Arc::new(Limits { token_signals_max: 1, ..Limits::default() });
    let config = EngineConfig { limits, ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(store.another()), config).await.unwrap();
    let stand = Stand::on(store, engine, Config::default()).await;
    let (id, token) = waiting(&stand).await;
    let shown = stand.get(&format!("/w/{token}")).await;
    assert!(String::from_utf8_lossy(&shown.body).contains("maxlength=\"85\""));
    let name = |text: &str, count| format!("decision=approve&source={}", text.repeat(count));
    // In UTF-8 three bytes each, which is the most that a browser lets pass.
    let (status, text) = decide(&stand, &token, &name("%E2%82%AC", 86)).await;
    assert_eq!(status, 400);
    assert!(text.contains("Your name") && text.contains("256"), "{text}");
    assert_eq!(decide(&stand, "v1.1.nobody", &name("%E2%82%AC", 85)).await.0, 404);
    stand.post(&format!("/v1/executions/{id}/cancel"), json!({ "cause": "enough" })).await.good();
    let (status, text) = decide(&stand, &token, &name("%E2%82%AC", 85)).await;
    assert_eq!(status, 200);
    assert!(text.contains("Already decided"), "{text}");

    stand.submit(json!({ "kind": "deploy" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let open = json!({ "lease": task["lease"], "waitpoint": { "name": "approve" } });
    let opened = stand.post("/v1/tasks/waitpoint", open).await.good();
    let token = opened["token"].as_str().unwrap();
    assert_eq!(decide(&stand, token, &name("ada", 1)).await.0, 200);
    let (status, text) = decide(&stand, token, &name("bob", 1)).await;
    assert_eq!(status, 422);
    assert!(text.contains("Too many decisions"), "{text}");
}
