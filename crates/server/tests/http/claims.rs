//! Claims whose answers are lost, and leases that are renewed.

use std::sync::Arc;

use ff_core::registry::Role;
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

#[tokio::test]
async fn tasks_that_a_heartbeat_has_confirmed_come_again_as_long_as_its_answer_may_be_lost() {
    let stand = Stand::new().await;
    stand.submit(json!({ "kind": "a" })).await;
    let worker = stand.worker().await;
    let claim = async || stand.claim(&worker, json!({ "name": "tester", "poll": 1 })).await;
    let tasks = claim().await;
    assert_eq!(tasks.len(), 1);
    let beat = json!({ "leases": [tasks[0]["lease"]] });
    stand.post(&format!("/v1/workers/{worker}/heartbeat"), beat).await.good();
    assert_eq!(claim().await, tasks);
    stand.server.app().claims.of(worker.parse().unwrap()).let_go(1);
    assert_eq!(claim().await.len(), 0, "whoever asks so late has them");
}

#[tokio::test]
async fn a_claim_that_finds_no_work_costs_no_look_into_the_store() {
    let stand = Stand::new().await;
    let worker = stand.worker().await;
    let claim =
        async || stand.post(&format!("/v1/workers/{worker}/claim"), json!({ "name": "tester" })).await;
    let loads = stand.store.faults().loads();
    for _ in 0..3 {
        assert_eq!(claim().await.good()["tasks"], json!([]));
    }
    assert_eq!(stand.store.faults().loads(), loads);
    stand.post(&format!("/v1/workers/{worker}/drain"), json!({})).await.good();
    assert_eq!(claim().await.problem(), (409, "worker_draining".into()));
}

#[tokio::test]
async fn the_leases_of_one_who_is_limited_to_namespaces_are_checked_together() {
    const TASKS: usize = 50;
    let stand = Stand::guarded().await;
    let bearer = |token: String| format!("Bearer {token}");
    let all = bearer(stand.token(Role::Admin, &[]).await);
    let ours = bearer(stand.token(Role::Worker, &["ours"]).await);
    let send = async |path: &str, body: Value, bearer: &str| {
        stand.send("POST", path, Some(body), &[("authorization", bearer)]).await.good()
    };
    for _ in 0..TASKS {
        send("/v1/executions", json!({ "kind": "a", "namespace": "ours" }), &all).await;
    }
    let worker = send("/v1/workers", json!({ "name": "w" }), &ours).await["id"].as_str().unwrap().to_owned();
    let claim = json!({ "name": "w", "max": TASKS, "wait_ms": 20_000 });
    let claimed = send(&format!("/v1/workers/{worker}/claim"), claim, &ours).await;
    let mut leases: Vec<Value> =
        claimed["tasks"].as_array().unwrap().iter().map(|task| task["lease"].clone()).collect();
    let theirs = send("/v1/executions", json!({ "kind": "a", "namespace": "theirs" }), &all).await;
    leases.push(json!({ "execution": theirs["id"], "attempt": 1, "epoch": 1 }));
    let loads = stand.store.faults().loads();
    let beat = send(&format!("/v1/workers/{worker}/heartbeat"), json!({ "leases": leases }), &ours).await;
    let loads = stand.store.faults().loads() - loads;
    let told = beat["leases"].as_array().unwrap();
    assert!(told[..TASKS].iter().all(|it| it["expires_at"].is_string()), "{beat}");
    assert_eq!(told[TASKS]["problem"]["code"], "not_found");
    assert!(loads < 10, "{loads} loads for {TASKS} leases");
}

#[tokio::test]
async fn what_a_worker_ends_at_another_server_is_no_news_to_it() {
    let here = Stand::new().await;
    let engine = Engine::start(Arc::new(here.store.another()), EngineConfig::default()).await.unwrap();
    let there = Stand::on(here.store.another(), engine, Config::default()).await;
    for _ in 0..2 {
        here.submit(json!({ "kind": "a" })).await;
    }
    let worker = here.worker().await;
    let claim = json!({ "name": "tester", "poll": 1, "max": 2, "wait_ms": 20_000 });
    let tasks = here.claim(&worker, claim).await;
    let (ended, kept) = (&tasks[0], &tasks[1]);
    let beat = json!({ "leases": [ended["lease"], kept["lease"]], "wait_ms": 20_000 });
    let beat = async { here.post(&format!("/v1/workers/{worker}/heartbeat"), beat).await.good() };
    let acts = async {
        let app = here.server.app();
        while app.live.long_polls.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let done = json!({ "tasks": [{ "lease": ended["lease"] }] });
        there.post("/v1/tasks/complete", done).await.good();
        // So that it is noticed here before anything else happens.
        here.engine.nudge().await;
        let cancel = format!("/v1/executions/{}/cancel", kept["lease"]["execution"].as_str().unwrap());
        there.post(&cancel, json!({ "cause": "enough", "grace_ms": 60_000 })).await.good();
    };
    let (beat, ()) = tokio::join!(beat, acts);
    assert_eq!(beat["disturbed"], json!([kept["lease"]["execution"]]));
    assert_eq!(beat["leases"][1]["cancel"]["by"]["cause"], "enough");
}
