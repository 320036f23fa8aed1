//! Bulk operations over HTTP.

use ff_core::registry::Role;
use serde_json::{Value, json};

use crate::stand::Stand;

async fn submit(stand: &Stand, count: usize, body: Value) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(stand.submit(body.clone()).await);
    }
    ids
}

async fn ended(stand: &Stand, begun: &Value) -> Value {
    stand.get(&format!("/v1/bulk/{}?wait=30s", begun["id"].as_str().unwrap())).await.good()
}

#[tokio::test]
async fn what_matches_is_cancelled_and_the_operation_says_how_it_went() {
    let stand = Stand::new().await;
    let ids = submit(&stand, 5, json!({ "kind": "a" })).await;
    let other = stand.submit(json!({ "kind": "b" })).await;
    let filter = json!({ "filter": { "kind": "a", "states": ["waiting"] }, "cause": "why not" });
    let mut dry = filter.clone();
    dry["dry_run"] = true.into();
    let preview = stand.post("/v1/bulk/cancel", dry).await.good();
    assert_eq!(
        (&preview["dry_run"], &preview["done"], &preview["more"]),
        (&true.into(), &5.into(), &false.into())
    );
    assert_eq!(preview["first"].as_array().unwrap().len(), 5);
    assert_eq!(stand.get("/v1/bulk").await.good()["bulks"], json!([]));

    let answer = stand.post("/v1/bulk/cancel", filter).await;
    assert_eq!(answer.status, 202);
    let begun = answer.good();
    assert_eq!((&begun["verb"], &begun["started_by"]), (&"cancel".into(), &"local".into()));
    let done = ended(&stand, &begun).await;
    assert_eq!((&done["state"], &done["seen"], &done["done"]), (&"finished".into(), &5.into(), &5.into()));
    for id in &ids {
        let found = stand.get(&format!("/v1/executions/{id}")).await.good();
        assert_eq!((&found["state"], &found["cancelled"]["cause"]), (&"cancelled".into(), &"why not".into()));
    }
    assert_eq!(stand.get(&format!("/v1/executions/{other}")).await.good()["state"], "waiting");
    let listed = stand.get("/v1/bulk").await.good();
    assert_eq!(listed["bulks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn replays_and_priorities_take_lists_and_tell_what_they_left_out() {
    let stand = Stand::new().await;
    let ids = submit(&stand, 3, json!({ "kind": "a" })).await;
    stand.post(&format!("/v1/executions/{}/cancel", ids[0]), json!({})).await.good();
    let done = ended(&stand, &stand.post("/v1/bulk/replay", json!({ "ids": ids })).await.good()).await;
    assert_eq!((&done["done"], &done["skipped"]), (&1.into(), &json!({ "not_terminal": 2 })));
    let told = &done["problems"][0];
    assert_eq!((&told["execution"], &told["code"]), (&json!(ids[1]), &"not_terminal".into()));
    let priority = json!({ "ids": ids, "priority": 9, "rate": 1_000 });
    let done = ended(&stand, &stand.post("/v1/bulk/priority", priority).await.good()).await;
    assert_eq!((&done["done"], &done["priority"]), (&3.into(), &9.into()));
    assert_eq!(stand.get(&format!("/v1/executions/{}", ids[2])).await.good()["priority"], 9);
}

#[tokio::test]
async fn a_request_that_does_not_fit_names_the_field() {
    let stand = Stand::new().await;
    for (path, body, field) in [
        ("/v1/bulk/cancel", json!({}), "filter"),
        ("/v1/bulk/cancel", json!({ "ids": [], "filter": {} }), "filter"),
        ("/v1/bulk/cancel", json!({ "ids": [] }), "ids"),
        ("/v1/bulk/cancel", json!({ "filter": { "states": ["done"] } }), "states"),
        ("/v1/bulk/cancel", json!({ "filter": {}, "priority": 1 }), "priority"),
        ("/v1/bulk/cancel", json!({ "filter": {}, "rate": 0 }), "rate"),
        ("/v1/bulk/cancel", json!({ "filter": {}, "id": "Not This" }), "id"),
        ("/v1/bulk/priority", json!({ "filter": {} }), "priority"),
        ("/v1/bulk/priority", json!({ "filter": {}, "priority": 101 }), "priority"),
        ("/v1/bulk/replay", json!({ "filter": {}, "grace_ms": 5 }), "grace_ms"),
    ] {
        let answer = stand.post(path, body.clone()).await;
        assert_eq!(answer.problem(), (400, "invalid".into()), "{path} {body}");
        assert_eq!(answer.json()["fields"][0]["field"], field, "{path} {body}");
    }
    let missing = stand.get("/v1/bulk/none").await;
    assert_eq!(missing.problem(), (404, "not_found".into()));
    assert_eq!(stand.post("/v1/bulk/none/stop", json!({})).await.problem(), (404, "not_found".into()));
}

#[tokio::test]
async fn one_that_is_stopped_says_by_whom() {
    let stand = Stand::new().await;
    submit(&stand, 3, json!({ "kind": "a" })).await;
    let slow = json!({ "filter": {}, "rate": 1, "id": "slow" });
    let begun = stand.post("/v1/bulk/cancel", slow.clone()).await.good();
    assert_eq!(begun["id"], "slow");
    let again = stand.post("/v1/bulk/cancel", slow).await.good();
    assert_eq!(again["started_at"], begun["started_at"], "the same again is the same operation");
    let stopped = stand.post("/v1/bulk/slow/stop", json!({ "actor": "ada" })).await.good();
    assert_eq!((&stopped["state"], &stopped["stopped_by"]), (&"stopped".into(), &"ada".into()));
    assert_eq!(ended(&stand, &begun).await["state"], "stopped");
    let other = stand.post("/v1/bulk/replay", json!({ "filter": {}, "id": "slow" })).await;
    assert_eq!(other.problem(), (409, "id_used".into()));
}

#[tokio::test]
async fn a_token_of_some_namespaces_reaches_no_others_and_sees_no_others() {
    for role in [Role::Operator, Role::Admin] {
        let stand = Stand::guarded().await;
        let [admin, ours, two] = [
            stand.token(Role::Admin, &[]).await,
            stand.token(role, &["ours"]).await,
            stand.token(role, &["ours", "more"]).await,
        ]
        .map(|secret| format!("Bearer {secret}"));
        let send = async |bearer: &str, method: &str, path: &str, body: Option<Value>| {
            stand.send(method, path, body, &[("authorization", bearer)]).await
        };
        let mut ids = Vec::new();
        for namespace in ["ours", "theirs"] {
            let submit = json!({ "kind": "a", "namespace": namespace });
            let made = send(&admin, "POST", "/v1/executions", Some(submit)).await.good();
            ids.push(made["id"].as_str().unwrap().to_owned());
        }
        let state = async |id: &str| {
            send(&admin, "GET", &format!("/v1/executions/{id}"), None).await.good()["state"].clone()
        };
        // By their ids what is theirs is not there.
        let begun = send(&ours, "POST", "/v1/bulk/cancel", Some(json!({ "ids": ids }))).await.good();
        let path = format!("/v1/bulk/{}", begun["id"].as_str().unwrap());
        let done = send(&ours, "GET", &format!("{path}?wait=30s"), None).await.good();
        assert_eq!((&done["done"], &done["skipped"]), (&1.into(), &json!({ "not_found": 1 })));
        assert_eq!((state(&ids[0]).await, state(&ids[1]).await), ("cancelled".into(), "waiting".into()));
        // By a filter only what is ours is meant.
        let begun = send(&ours, "POST", "/v1/bulk/replay", Some(json!({ "filter": {} }))).await.good();
        assert_eq!(begun["namespaces"], json!(["ours"]));
        let theirs = json!({ "filter": { "namespace": "theirs" } });
        assert_eq!(
            send(&ours, "POST", "/v1/bulk/cancel", Some(theirs)).await.problem(),
            (403, "forbidden".into())
        );
        let unsaid = send(&two, "POST", "/v1/bulk/cancel", Some(json!({ "filter": {} }))).await;
        assert_eq!(unsaid.problem(), (400, "invalid".into()));
        // One that reaches further is neither seen nor stopped, nor told apart from none.
        let wide = json!({ "filter": {}, "id": "wide", "rate": 1, "dry_run": false });
        send(&admin, "POST", "/v1/bulk/priority", Some(json!({ "filter": {}, "id": "wide", "priority": 3 })))
            .await
            .good();
        for (method, path) in [("GET", "/v1/bulk/wide"), ("POST", "/v1/bulk/wide/stop")] {
            let body = (method == "POST").then(|| json!({}));
            assert_eq!(send(&ours, method, path, body).await.problem(), (404, "not_found".into()));
        }
        let taken = send(&ours, "POST", "/v1/bulk/replay", Some(wide)).await;
        assert_eq!(taken.problem(), (409, "id_used".into()));
        let seen = send(&two, "GET", "/v1/bulk", None).await.good();
        assert_eq!(seen["bulks"].as_array().unwrap().len(), 2);
    }
}
