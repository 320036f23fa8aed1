//! Things that are listed can also be read one by one, and waited for.

use ff_core::registry::Role;
use serde_json::{Value, json};

use crate::signals::waiting;
use crate::stand::Stand;

#[tokio::test]
async fn one_lane_one_worker_and_one_waitpoint_are_read_by_their_names() {
    let stand = Stand::new().await;
    let unchanged = stand.get("/v1/lanes/billing").await.good();
    assert_eq!((&unchanged["name"], &unchanged["mode"]), (&json!("billing"), &json!("open")));
    let change = json!({ "mode": "paused" });
    let changed = stand.send("PATCH", "/v1/lanes/billing", Some(change), &[]).await.good();
    assert_eq!(stand.get("/v1/lanes/billing").await.good(), changed);
    assert_eq!(stand.get(&format!("/v1/lanes/{}", "x".repeat(65))).await.problem().0, 400);

    let worker = stand.worker().await;
    let found = stand.get(&format!("/v1/workers/{worker}")).await.good();
    assert_eq!((&found["id"], &found["name"]), (&json!(worker), &json!("tester")));
    let nobody = stand.get("/v1/workers/0197f3a2-6f3e-7c41-9b1d-0242ac120002").await;
    assert_eq!(nobody.problem(), (404, "not_found".into()));

    let (_, first) = waiting(&stand).await;
    let (id, opened) = waiting(&stand).await;
    let path = format!("/v1/waitpoints/{}", opened["waitpoint"].as_str().unwrap());
    let found = stand.get(&path).await.good();
    assert_eq!((&found["execution"], &found["name"]), (&json!(id), &json!("approved")));
    assert_ne!(found["waitpoint"], first["waitpoint"]);
    let never = stand.get(&format!("/v1/waitpoints/{id}-2")).await;
    assert_eq!(never.problem(), (404, "not_found".into()));
    stand.post(&format!("{path}/signal"), json!({ "payload": true })).await.good();
    assert_eq!(stand.get(&path).await.problem(), (404, "not_found".into()), "it is open no more");
}

#[tokio::test]
async fn namespaces_are_listed_with_what_is_in_them_to_those_who_may_see_them() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let submit = async |namespace: &str| {
        let body = json!({ "kind": "k", "namespace": namespace });
        stand.send("POST", "/v1/executions", Some(body), &[("authorization", &admin)]).await.good()
    };
    submit("red").await;
    submit("red").await;
    let cancelled = format!("/v1/executions/{}/cancel", submit("blue").await["id"].as_str().unwrap());
    stand.send("POST", &cancelled, Some(json!({})), &[("authorization", &admin)]).await.good();

    let red = json!({ "name": "red", "executions": 2, "states": { "waiting": 2 } });
    let blue = json!({ "name": "blue", "executions": 1, "states": { "cancelled": 1 } });
    let ask =
        async |token: &str, path: &str| stand.send("GET", path, None, &[("authorization", token)]).await;
    let all = ask(&admin, "/v1/namespaces").await.good();
    assert_eq!(all, json!({ "namespaces": [blue, red] }));
    assert_eq!(ask(&admin, "/v1/namespaces/red").await.good(), red);
    let unused = json!({ "name": "green", "executions": 0, "states": {} });
    assert_eq!(ask(&admin, "/v1/namespaces/green").await.good(), unused);
    assert_eq!(ask(&admin, "/v1/namespaces/NO%20NAME").await.problem().0, 400);

    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let limited = format!("Bearer {}", stand.token(role, &["red"]).await);
        assert_eq!(ask(&limited, "/v1/namespaces").await.good(), json!({ "namespaces": [red] }), "{role}");
        assert_eq!(ask(&limited, "/v1/namespaces/red").await.good(), red, "{role}");
        assert_eq!(ask(&limited, "/v1/namespaces/blue").await.problem().0, 403, "{role}");
    }
}

#[tokio::test]
async fn one_token_is_read_by_its_id_and_without_its_secret() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let headers = [("authorization", admin.as_str())];
    let body = json!({ "name": "ci", "role": "viewer" });
    let made = stand.send("POST", "/v1/tokens", Some(body), &headers).await.good();
    let path = format!("/v1/tokens/{}", made["token"]["id"].as_str().unwrap());
    let found = stand.send("GET", &path, None, &headers).await;
    assert!(!String::from_utf8_lossy(&found.body).contains(made["secret"].as_str().unwrap()));
    assert_eq!(found.good(), made["token"]);
    let nothing = stand.send("GET", "/v1/tokens/nothing", None, &headers).await;
    assert_eq!(nothing.problem(), (404, "not_found".into()));
}

/// Nothing sleeps here: what is waited for is made once somebody waits.
async fn once_somebody_waits(stand: &Stand) {
    loop {
        let text = String::from_utf8(stand.get("/metrics").await.body).unwrap();
        if text.lines().any(|line| line == "flowfabric_long_polls 1") {
            return;
        }
    }
}

#[tokio::test]
async fn the_first_waitpoint_of_an_empty_inbox_is_waited_for() {
    let stand = Stand::new().await;
    let none = stand.get("/v1/waitpoints?wait=1ms").await.good();
    assert_eq!(none["waitpoints"], json!([]));
    let ask = async { stand.get("/v1/waitpoints?name=approved&wait=60s").await.good() };
    let open = async {
        once_somebody_waits(&stand).await;
        waiting(&stand).await.1
    };
    let (found, opened) = tokio::join!(ask, open);
    assert_eq!(found["waitpoints"][0]["waitpoint"], opened["waitpoint"]);
    // Where there is one, nobody waits.
    let again = stand.get("/v1/waitpoints?wait=60s").await.good();
    assert_eq!(again["waitpoints"][0]["waitpoint"], opened["waitpoint"]);
    assert_eq!(stand.get("/v1/waitpoints?wait=soon").await.json()["fields"][0]["field"], "wait");
}

#[tokio::test]
async fn a_page_of_output_waits_for_the_next_frame_or_the_end() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let path = format!("/v1/executions/{id}/stream");
    let after =
        async |number: u64| -> Value { stand.get(&format!("{path}?after={number}&wait=60s")).await.good() };
    let append = async {
        once_somebody_waits(&stand).await;
        let frames = json!([{ "kind": "text", "text": "one" }]);
        let body = json!({ "tasks": [{ "lease": task["lease"], "first": 1, "frames": frames }] });
        stand.post("/v1/tasks/frames", body).await.good()
    };
    let (page, _) = tokio::join!(after(0), append);
    assert_eq!(page["frames"][0]["text"], "one");
    assert_eq!(after(0).await["frames"][0]["text"], "one", "what is there is not waited for");
    let end = async {
        once_somebody_waits(&stand).await;
        stand.post("/v1/tasks/complete", json!({ "tasks": [{ "lease": task["lease"] }] })).await.good()
    };
    let (page, _) = tokio::join!(after(1), end);
    assert_eq!(page["frames"], json!([]), "the end ends the wait");
}

#[tokio::test]
async fn a_signal_with_the_key_of_an_earlier_one_is_that_one() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let path = format!("/v1/executions/{id}/signal");
    let send =
        async |body: Value| stand.send("POST", &path, Some(body), &[("idempotency-key", "order-7")]).await;
    let first = send(json!({ "name": "paid", "payload": 1 })).await.good();
    let again = send(json!({ "name": "paid", "payload": 1, "key": "order-7" })).await.good();
    assert_eq!((&first["effect"], &again["effect"]), (&json!("buffered"), &json!("duplicate")));
    let kept = stand.get(&format!("/v1/executions/{id}/signals")).await.good();
    assert_eq!(kept["signals"].as_array().unwrap().len(), 1);
    let other = send(json!({ "name": "paid", "key": "order-8" })).await;
    assert_eq!(other.json()["fields"][0]["field"], "Idempotency-Key");
}
