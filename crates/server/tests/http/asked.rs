//! What is given and not taken is refused, and what is there is not taken over.

use ff_core::registry::Role;
use serde_json::json;

use crate::stand::Stand;

#[tokio::test]
async fn an_option_or_a_key_that_a_route_does_not_take_is_refused_and_named() {
    let stand = Stand::new().await;
    for path in ["/v1/lanes?colour=red", "/v1/tokens?limit=1", "/v1/executions?limit=1&colour=red"] {
        let answer = stand.get(path).await;
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{path}");
        assert!(answer.head.to_lowercase().contains("x-request-id"), "{}", answer.head);
    }
    let key = [("idempotency-key", "k")];
    let flow = json!({ "kind": "trip", "nodes": [{ "run": { "kind": "a" } }] });
    let answer = stand.send("POST", "/v1/flows", Some(flow), &key).await;
    assert_eq!(answer.json()["fields"][0]["field"], "Idempotency-Key");
    let many = json!({ "executions": [{ "kind": "a" }, { "kind": "a" }] });
    let answer = stand.send("POST", "/v1/executions", Some(many), &key).await;
    assert_eq!(answer.json()["fields"][0]["field"], "Idempotency-Key");
    assert_eq!(stand.get("/v1/executions/count").await.good()["count"], 0);
    let one = async || stand.send("POST", "/v1/executions", Some(json!({ "kind": "a" })), &key).await.good();
    assert_eq!(one().await["id"], one().await["id"]);
    assert_eq!(stand.get("/healthz?from=balancer").await.status, 200);
}

#[tokio::test]
async fn a_worker_gets_what_was_stored_and_not_what_was_refused() {
    let stand = Stand::new().await;
    let given = json!({ "to": "alice" });
    let id = stand.submit(json!({ "kind": "pay", "input": given })).await;
    let worker = stand.worker().await;
    let claim = async || {
        let asked = json!({ "name": "tester", "kinds": ["pay"], "max": 10, "wait_ms": 20_000 });
        let mut tasks = stand.claim(&worker, asked).await;
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        tasks.remove(0)
    };
    let other = json!({ "kind": "pay", "id": id, "input": { "to": "mallory" } });
    let alone = async || {
        let one = stand.post("/v1/executions", other.clone()).await;
        assert_eq!(one.problem(), (409, "idempotency_mismatch".to_owned()));
    };
    let among_many = async || {
        let many = stand.post("/v1/executions", json!({ "executions": [other] })).await.good();
        assert_eq!(many["outcomes"][0]["problem"]["code"], "idempotency_mismatch", "{many}");
    };
    // What waits is asked for again in each way, and so is what runs: whoever gets it next gets the same.
    for turn in 0..4 {
        if turn % 2 == 0 {
            alone().await;
        } else {
            among_many().await;
        }
        let task = claim().await;
        assert_eq!((&task["lease"]["execution"], &task["input"]), (&json!(id), &given), "turn {turn}");
        if turn < 2 {
            among_many().await;
        } else {
            alone().await;
        }
        let release = json!({ "tasks": [{ "lease": task["lease"] }] });
        let released = stand.post("/v1/tasks/release", release).await.good();
        assert_eq!(released["outcomes"][0]["problem"], json!(null), "{released}");
    }
    assert_eq!(claim().await["input"], given);
    assert_eq!(stand.get(&format!("/v1/executions/{id}/input")).await.good()["input"], given);
}

#[tokio::test]
async fn an_id_that_is_there_is_never_taken_over() {
    let stand = Stand::guarded().await;
    let ours = stand.token(Role::Worker, &["ours"]).await;
    let theirs = stand.token(Role::Operator, &["theirs"]).await;
    let ours = [("authorization", &*format!("Bearer {ours}"))];
    let theirs = [("authorization", &*format!("Bearer {theirs}"))];
    let work = json!({ "kind": "a", "namespace": "theirs" });
    let made = stand.send("POST", "/v1/executions", Some(work), &theirs).await.good();
    let id = made["id"].as_str().unwrap();
    stand.send("POST", &format!("/v1/executions/{id}/cancel"), Some(json!({})), &theirs).await.good();
    let flow = json!({ "kind": "trip", "namespace": "theirs", "nodes": [{ "run": { "kind": "a" } }] });
    let flow = stand.send("POST", "/v1/flows", Some(flow), &theirs).await.good();

    let evil = json!({ "kind": "evil", "namespace": "ours", "id": id });
    let answer = stand.send("POST", "/v1/executions", Some(evil.clone()), &ours).await;
    assert_eq!(answer.problem().1, "idempotency_mismatch");
    let many = json!({ "executions": [evil] });
    let answer = stand.send("POST", "/v1/executions", Some(many), &ours).await.good();
    assert_eq!(answer["outcomes"][0]["problem"]["code"], "idempotency_mismatch", "{answer}");
    let flow_id = flow["flow"]["id"].as_str().unwrap();
    let evil =
        json!({ "kind": "evil", "namespace": "ours", "id": flow_id, "nodes": [{ "run": { "kind": "a" } }] });
    let answer = stand.send("POST", "/v1/flows", Some(evil), &ours).await;
    assert_eq!(answer.problem().1, "flow_mismatch");
    // Inside a flow of one's own: as a child, and as a member.
    let route = &flow_id[flow_id.len() - 4..];
    let own = format!("0197f3a2-6f3e-7c41-9b1d-0242ac12{route}");
    let child = json!({ "id": flow_id, "nodes": [{ "run": { "kind": "a" } }] });
    for node in
        [json!({ "run": { "kind": "evil" }, "child": child }), json!({ "run": { "kind": "evil", "id": id } })]
    {
        let evil = json!({ "kind": "evil", "namespace": "ours", "id": own, "nodes": [node] });
        let answer = stand.send("POST", "/v1/flows", Some(evil), &ours).await;
        assert!((400..500).contains(&answer.status), "{} {}", answer.status, answer.json());
    }
    let fresh = json!({ "kind": "evil", "namespace": "ours", "id": id, "fresh": true });
    assert_eq!(stand.send("POST", "/v1/executions", Some(fresh), &ours).await.problem().1, "invalid");

    let found = stand.send("GET", &format!("/v1/executions/{id}"), None, &theirs).await.good();
    assert_eq!((&found["kind"], &found["state"]), (&"a".into(), &"cancelled".into()));
    let found = stand.send("GET", &format!("/v1/flows/{flow_id}"), None, &theirs).await.good();
    assert_eq!((&found["kind"], &found["node_count"]), (&"trip".into(), &1.into()), "{found}");
    assert_eq!(ff_engine::doctor::examine(&stand.store).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn the_end_of_an_execution_can_be_waited_for_where_it_is_read() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let soon = stand.get(&format!("/v1/executions/{id}?wait=1ms")).await.good();
    assert_eq!(soon["state"], "waiting");
    let path = format!("/v1/executions/{id}?wait=30s");
    let waits = stand.get(&path);
    let ends = async {
        while stand.server.app().live.long_polls.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        stand.post(&format!("/v1/executions/{id}/cancel"), json!({})).await.good()
    };
    let (waited, _) = tokio::join!(waits, ends);
    assert_eq!(waited.good()["state"], "cancelled");
}

#[tokio::test]
async fn what_no_record_can_be_called_is_not_there() {
    let stand = Stand::new().await;
    for (method, path) in [
        ("GET", "/v1/bulk/%00"),
        ("POST", "/v1/bulk/%00/stop"),
        ("GET", "/v1/webhooks/%00"),
        ("DELETE", "/v1/webhooks/a%00b"),
        ("DELETE", "/v1/tokens/%00"),
    ] {
        let body = (method == "POST").then(|| json!({}));
        let answer = stand.send(method, path, body, &[]).await;
        assert_eq!(answer.problem(), (404, "not_found".into()), "{method} {path}");
    }
    let begun = json!({ "id": "a\u{0}", "ids": [] });
    assert_eq!(stand.post("/v1/bulk/cancel", begun).await.problem(), (400, "invalid".into()));
}
