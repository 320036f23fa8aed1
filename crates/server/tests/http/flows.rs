//! Flows over HTTP.

use serde_json::json;

use crate::stand::Stand;

#[tokio::test]
async fn a_flow_is_submitted_by_names_and_runs_to_its_end() {
    let stand = Stand::new().await;
    let flow = json!({
        "kind": "trip",
        "nodes": [
            { "name": "left", "run": { "kind": "a" } },
            { "name": "right", "run": { "kind": "a" } },
            { "name": "join", "run": { "kind": "a" }, "join": { "policy": "any_of" } },
        ],
        "edges": [
            { "from": "left", "to": "join", "field": "it" },
            { "from": "right", "to": "join", "field": "it" },
        ],
    });
    let made = stand.post("/v1/flows", flow).await.good();
    let id = made["flow"]["id"].as_str().unwrap().to_owned();
    assert!(made["nodes"]["join"].is_string());
    let worker = stand.worker().await;
    for _ in 0..2 {
        let tasks = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await;
        let done = json!({ "tasks": [{ "lease": tasks[0]["lease"], "result": tasks[0]["node"] }] });
        stand.post("/v1/tasks/complete", done).await.good();
    }
    let result = stand.get(&format!("/v1/flows/{id}/result?wait=5s")).await.good();
    assert_eq!((&result["ended"], &result["result"]), (&json!(true), &json!("join")));
    let graph = stand.get(&format!("/v1/flows/{id}/graph")).await.good();
    assert_eq!(
        (graph["members"].as_array().unwrap().len(), graph["edges"].as_array().unwrap().len()),
        (3, 2)
    );
    let members = stand.get(&format!("/v1/flows/{id}/members?limit=2")).await.good();
    assert_eq!(members["next_after"], 2);
    let join = made["nodes"]["join"].as_str().unwrap();
    let edges = stand.get(&format!("/v1/executions/{join}/edges?direction=in")).await.good();
    assert_eq!(edges["edges"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_open_flow_grows_and_is_sealed_and_cancelled() {
    let stand = Stand::new().await;
    let made = stand
        .post("/v1/flows", json!({ "sealed": false, "nodes": [{ "name": "a", "run": { "kind": "a" } }] }))
        .await
        .good();
    let (id, a) = (made["flow"]["id"].as_str().unwrap(), made["nodes"]["a"].as_str().unwrap());
    let more =
        json!({ "nodes": [{ "name": "b", "run": { "kind": "a" } }], "edges": [{ "from": a, "to": "b" }] });
    let grown = stand.post(&format!("/v1/flows/{id}/nodes"), more).await.good();
    assert_eq!(grown["flow"]["node_count"], 2);
    assert_eq!(stand.post(&format!("/v1/flows/{id}/seal"), json!({})).await.good()["flow"]["sealed"], true);
    let late = json!({ "nodes": [{ "run": { "kind": "a" } }] });
    assert_eq!(
        stand.post(&format!("/v1/flows/{id}/nodes"), late).await.problem(),
        (409, "flow_closed".into())
    );
    stand.post(&format!("/v1/flows/{id}/cancel"), json!({ "cause": "enough" })).await.good();
    assert_eq!(stand.get(&format!("/v1/flows/{id}?wait=5s")).await.good()["state"], "cancelled");
}

#[tokio::test]
async fn a_graph_that_does_not_fit_is_refused_whole() {
    let stand = Stand::new().await;
    let node = |name: &str| json!({ "name": name, "run": { "kind": "a" } });
    for (flow, field) in [
        (json!({ "nodes": [node("a"), node("a")] }), "nodes"),
        (json!({ "nodes": [node("a")], "edges": [{ "from": "a", "to": "b" }] }), "edges.to"),
        (json!({ "nodes": [node("a")], "edges": [{ "from": "a", "to": "a", "on": "sunday" }] }), "edges.on"),
        (json!({ "nodes": [{ "run": { "kind": "a" }, "join": { "policy": "quorum" } }] }), "join.k"),
        (json!({ "nodes": [{ "run": { "kind": "a", "namespace": "other" } }] }), "nodes.run.namespace"),
    ] {
        let answer = stand.post("/v1/flows", flow.clone()).await;
        assert_eq!(answer.json()["fields"][0]["field"], field, "{flow}");
    }
    let cycle = json!({ "nodes": [node("a"), node("b")], "edges": [{ "from": "a", "to": "b" }, { "from": "b", "to": "a" }] });
    assert_eq!(stand.post("/v1/flows", cycle).await.problem(), (409, "cycle".into()));
    assert_eq!(stand.get("/v1/flows").await.good()["flows"], json!([]));
}

#[tokio::test]
async fn whoever_cancels_a_flow_may_wait_for_its_end() {
    let stand = Stand::new().await;
    let flow = json!({ "nodes": [{ "name": "one", "run": { "kind": "a" } }, { "name": "two", "run": { "kind": "b" } }] });
    let made = stand.post("/v1/flows", flow).await.good();
    let path = format!("/v1/flows/{}/cancel", made["flow"]["id"].as_str().unwrap());
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let pending = json!({ "policy": "cancel_pending" });
    let now = stand.post(&path, pending.clone()).await.good();
    assert_eq!(now["flow"]["ended_at"], json!(null), "one of its members runs");
    let done = json!({ "tasks": [{ "lease": task["lease"] }] });
    let waiting = format!("{path}?wait=30s");
    let (ended, _) = tokio::join!(stand.post(&waiting, pending), stand.post("/v1/tasks/complete", done));
    assert_eq!(ended.good()["flow"]["state"], "cancelled");
    let wrong = stand.post(&format!("{path}?wait=soon"), json!({})).await;
    assert_eq!(wrong.problem(), (400, "invalid".into()));
}
