//! The way of work: submitted, claimed, ended, looked at.

use serde_json::{Value, json};

use crate::stand::Stand;

#[tokio::test]
async fn work_is_submitted_claimed_and_completed() {
    let stand = Stand::new().await;
    let submitted =
        stand.post("/v1/executions", json!({ "kind": "greet", "input": { "name": "Ada" } })).await;
    assert_eq!(submitted.status, 201);
    let id = submitted.json()["id"].as_str().unwrap().to_owned();
    let waiting = stand.get(&format!("/v1/executions/{id}")).await.good();
    assert_eq!((&waiting["state"], &waiting["kind"]), (&json!("waiting"), &json!("greet")));

    let worker = stand.worker().await;
    let tasks = stand.claim(&worker, json!({ "name": "tester", "max": 5, "wait_ms": 5000 })).await;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["input"], json!({ "name": "Ada" }));
    let done = json!({ "tasks": [{ "lease": tasks[0]["lease"], "result": "hello Ada" }] });
    let outcomes = stand.post("/v1/tasks/complete", done.clone()).await.good();
    assert_eq!(outcomes["outcomes"][0]["answer"]["outcome"], "completed");
    // The same again has the same answer.
    assert_eq!(stand.post("/v1/tasks/complete", done).await.good(), outcomes);

    let result = stand.get(&format!("/v1/executions/{id}/result?wait=5s")).await.good();
    assert_eq!((&result["ended"], &result["result"]), (&json!(true), &json!("hello Ada")));
    let attempts = stand.get(&format!("/v1/executions/{id}/attempts")).await.good();
    assert_eq!(attempts["attempts"][0]["outcome"], "completed");
}

#[tokio::test]
async fn many_are_submitted_at_once_and_each_is_answered_for_itself() {
    let stand = Stand::new().await;
    let many = json!({ "executions": [{ "kind": "a" }, { "kind": "a b" }, { "kind": "a", "priority": 7 }] });
    let outcomes = stand.post("/v1/executions", many).await.good();
    let outcomes = outcomes["outcomes"].as_array().unwrap();
    assert!(outcomes[0]["answer"]["id"].is_string() && outcomes[2]["answer"]["id"].is_string());
    assert_eq!(outcomes[1]["problem"]["fields"][0]["field"], "kind");
    let count = stand.get("/v1/executions/count?kind=a").await.good();
    assert_eq!(count["count"], 2);
}

#[tokio::test]
async fn the_same_key_gives_the_same_execution() {
    let stand = Stand::new().await;
    let send = async || {
        let body = json!({ "kind": "charge", "input": 7 });
        stand.send("POST", "/v1/executions", Some(body), &[("idempotency-key", "order-7")]).await
    };
    let (first, second) = (send().await, send().await);
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = json!({ "kind": "charge", "input": 8, "idempotency_key": "order-7" });
    assert_eq!(stand.post("/v1/executions", other).await.problem(), (409, "idempotency_mismatch".into()));
}

#[tokio::test]
async fn lists_go_on_page_by_page() {
    let stand = Stand::new().await;
    for n in 0..5 {
        stand.submit(json!({ "kind": "a", "tags": { "team": "pay" }, "input": n })).await;
    }
    stand.submit(json!({ "kind": "b" })).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stand.get(&format!("/v1/executions?tag=team%3Dpay&limit=2{cursor}")).await.good();
        seen.extend(page["executions"].as_array().unwrap().iter().map(|it| it["id"].clone()));
        match &page["next_cursor"] {
            Value::String(next) => cursor = format!("&cursor={next}"),
            _ => break,
        }
    }
    seen.sort_by_key(Value::to_string);
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn an_operator_holds_releases_cancels_and_replays() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let operate =
        async |what: &str, body: Value| stand.post(&format!("/v1/executions/{id}/{what}"), body).await.good();
    let held = operate("hold", json!({ "actor": "ada", "cause": "wait" })).await;
    assert_eq!((&held["reason"], &held["held"]["actor"]), (&json!("paused_by_operator"), &json!("ada")));
    assert_eq!(operate("release", json!({})).await["reason"], "waiting_for_worker");
    assert_eq!(operate("priority", json!({ "priority": 9 })).await["priority"], 9);
    assert_eq!(operate("tags", json!({ "set": { "a": "b" } })).await["tags"], json!({ "a": "b" }));
    assert_eq!(operate("cancel", json!({ "cause": "enough" })).await["state"], "cancelled");
    assert_eq!(operate("replay", json!({})).await["state"], "waiting");
    let events = stand.get(&format!("/v1/executions/{id}/events")).await.good();
    let words: Vec<&str> =
        events["events"].as_array().unwrap().iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(words.first(), Some(&"created"));
    assert!(words.contains(&"cancelled") && words.contains(&"replayed"), "{words:?}");
}

#[tokio::test]
async fn bytes_that_are_not_json_come_back_as_they_were() {
    let stand = Stand::new().await;
    let input = json!({ "content_type": "image/png", "base64": "/wA=" });
    let id = stand.submit(json!({ "kind": "a", "input_encoded": input })).await;
    let found = stand.get(&format!("/v1/executions/{id}/input")).await.good();
    assert_eq!((&found["input"], &found["input_encoded"]), (&Value::Null, &input));
}

#[tokio::test]
async fn metrics_tell_depth_ages_routes_and_only_what_is_documented() {
    let stand = Stand::new().await;
    stand.submit(json!({ "kind": "a", "lane": "slow \"lane\"" })).await;
    let worker = stand.worker().await;
    stand.claim(&worker, json!({ "name": "tester" })).await;
    let answer = stand.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        r#"flowfabric_queue_depth{lane="slow \"lane\""} 1"#,
        r#"flowfabric_http_requests_total{route="/v1/executions",status="201"} 1"#,
        "# TYPE flowfabric_store_seconds histogram",
        r#"flowfabric_http_seconds_count{route="/v1/executions"} 1"#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    let known = |name: &str| {
        let name =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        ff_server::metrics::NAMES.iter().any(|(it, _, _)| *it == name)
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(known(line.split(['{', ' ']).next().unwrap()), "{line}");
    }
}

#[tokio::test]
async fn a_server_that_stops_answers_its_long_polls_and_turns_its_readiness() {
    let stand = Stand::new().await;
    assert_eq!(stand.get("/readyz").await.status, 200);
    let worker = stand.worker().await;
    let address = stand.address;
    let request = crate::clients::claim_request(&worker).replacen("\r\n", "\r\nconnection: close\r\n", 1);
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut polling = tokio::net::TcpStream::connect(address).await.unwrap();
    polling.write_all(request.as_bytes()).await.unwrap();
    let app = stand.server.app().clone();
    while app.live.long_polls.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let stopped = stand.server.stop().await;
    assert!(stopped.drained);
    let mut bytes = Vec::new();
    polling.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(crate::stand::parse(&bytes).good()["tasks"], json!([]));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
