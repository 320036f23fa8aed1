//! Claims whose answers are lost, and leases that are renewed.

use std::sync::Arc;

use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use serde_json::{Value, json};

use crate::stand::Stand;

/// What happens five seconds after a claim was answered.
async fn time_to_confirm_is_over(stand: &Stand, worker: &str) {
    let claimant = stand.server.app().claims.of(worker.parse().unwrap());
    claimant.give_back(&stand.engine, 1).await;
}

#[tokio::test]
async fn the_same_poll_number_gives_the_same_tasks_and_the_next_gives_others() {
    let stand = Stand::new().await;
    for n in 0..4 {
        stand.submit(json!({ "kind": "a", "input": n })).await;
    }
    let worker = stand.worker().await;
    let claim =
        async |poll: u64| stand.claim(&worker, json!({ "name": "tester", "max": 2, "poll": poll })).await;
    let first = claim(1).await;
    assert_eq!(first.len(), 2);
    assert_eq!(claim(1).await, first);
    let second = claim(2).await;
    assert_eq!(second.len(), 2);
    assert!(second.iter().all(|task| !first.contains(task)));
}

#[tokio::test]
async fn tasks_that_nobody_confirms_go_to_others_and_cost_no_attempt() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let lost = stand.worker().await;
    let first = stand.claim(&lost, json!({ "name": "tester", "poll": 1 })).await;
    assert_eq!(first.len(), 1);
    time_to_confirm_is_over(&stand, &lost).await;
    let other = stand.worker().await;
    let second = stand.claim(&other, json!({ "name": "tester", "wait_ms": 20_000, "poll": 1 })).await;
    assert_eq!(second.len(), 1);
    let found = stand.get(&format!("/v1/executions/{id}")).await.good();
    assert_eq!(found["attempts_spent"], 0);
    let late = json!({ "tasks": [{ "lease": first[0]["lease"] }] });
    let late = stand.post("/v1/tasks/complete", late).await.good();
    assert!(late["outcomes"][0]["problem"]["code"].is_string(), "{late}");
}

#[tokio::test]
async fn a_heartbeat_confirms_tasks_and_renews_their_leases() {
    let stand = Stand::new().await;
    stand.submit(json!({ "kind": "a" })).await;
    let worker = stand.worker().await;
    let tasks = stand.claim(&worker, json!({ "name": "tester", "poll": 1 })).await;
    let beat = async |body: Value| stand.post(&format!("/v1/workers/{worker}/heartbeat"), body).await.good();
    let renewed = beat(json!({ "leases": [tasks[0]["lease"]] })).await;
    assert!(renewed["leases"][0]["expires_at"].is_string(), "{renewed}");
    time_to_confirm_is_over(&stand, &worker).await;
    let done = json!({ "tasks": [{ "lease": tasks[0]["lease"] }] });
    let done = stand.post("/v1/tasks/complete", done).await.good();
    assert_eq!(done["outcomes"][0]["answer"]["outcome"], "completed");
    let gone = beat(json!({ "leases": [tasks[0]["lease"]] })).await;
    assert_eq!(gone["leases"][0]["problem"]["code"], "already_ended");
}

#[tokio::test]
async fn tasks_that_were_confirmed_at_another_server_of_the_store_stay_with_their_worker() {
    let here = Stand::new().await;
    let engine = Engine::start(Arc::new(here.store.another()), EngineConfig::default()).await.unwrap();
    assert!(!engine.serves_alone());
    let there = Stand::on(here.store.another(), engine, Config::default()).await;
    here.submit(json!({ "kind": "a" })).await;
    let worker = here.worker().await;
    let tasks = here.claim(&worker, json!({ "name": "tester", "poll": 1, "wait_ms": 20_000 })).await;
    let beat = json!({ "leases": [tasks[0]["lease"]] });
    let renew = async || {
        let path = format!("/v1/workers/{worker}/heartbeat");
        let renewed = there.post(&path, beat.clone()).await.good();
        renewed["leases"][0]["expires_at"].as_str().unwrap().to_owned()
    };
    let first = renew().await;
    // In the millisecond of the claim a lease ends when it did before, as if nobody had renewed it.
    while renew().await == first {}
    time_to_confirm_is_over(&here, &worker).await;
    let done = json!({ "tasks": [{ "lease": tasks[0]["lease"] }] });
    let done = there.post("/v1/tasks/complete", done).await.good();
    assert_eq!(done["outcomes"][0]["answer"]["outcome"], "completed", "{done}");
}

#[tokio::test]
async fn a_waiting_heartbeat_hears_of_a_cancel_at_once() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let worker = stand.worker().await;
    let tasks = stand.claim(&worker, json!({ "name": "tester", "poll": 1 })).await;
    let path = format!("/v1/workers/{worker}/heartbeat");
    let beat = stand.post(&path, json!({ "leases": [tasks[0]["lease"]], "wait_ms": 30_000 }));
    let cancel = async {
        let app = stand.server.app();
        while app.live.long_polls.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        stand
            .post(&format!("/v1/executions/{id}/cancel"), json!({ "cause": "enough", "grace_ms": 60_000 }))
            .await
            .good()
    };
    let (beat, cancelled) = tokio::join!(beat, cancel);
    assert_eq!(cancelled["state"], "active");
    let beat = beat.good();
    assert_eq!(beat["disturbed"], json!([id]));
    assert_eq!(beat["leases"][0]["cancel"]["by"]["cause"], "enough");
}
