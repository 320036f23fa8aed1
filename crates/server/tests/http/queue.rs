//! How long work waits, as operators see it.

use std::sync::Arc;

use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use ff_store::{ManualClock, MemoryStore};
use serde_json::json;

use crate::stand::Stand;

async fn figure(stand: &Stand, name: &str, lane: &str) -> f64 {
    let text = String::from_utf8(stand.get("/metrics").await.body).unwrap();
    let name = format!("flowfabric_queue_{name}{{lane=\"{lane}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

async fn age(stand: &Stand, lane: &str) -> f64 {
    figure(stand, "age_seconds", lane).await
}

#[tokio::test]
async fn the_age_of_a_queue_counts_from_when_work_could_be_claimed() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = MemoryStore::with_clock(3, clock.clone());
    let settings = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(store.another()), settings).await.unwrap();
    let stand = Stand::on(store, engine, Config { clock: clock.clone(), ..Config::default() }).await;
    let late = stand.submit(json!({ "kind": "a", "lane": "late", "delay_ms": "1h" })).await;
    stand.submit(json!({ "kind": "a", "lane": "soon" })).await;
    clock.advance(3_600_000);
    stand.engine.nudge().await;
    // It becomes ready when its time has come, and has waited for nobody until then.
    while stand.get(&format!("/v1/executions/{late}")).await.good()["state"] != "waiting" {}
    assert_eq!(age(&stand, "late").await, 0.0);
    assert_eq!(age(&stand, "soon").await, 3_600.0);
    clock.advance(5_000);
    assert_eq!(age(&stand, "late").await, 5.0);

    // Who is sooner by priority does not hide who waits longer.
    for priority in [0, 50, 100] {
        stand.submit(json!({ "kind": "a", "lane": "soon", "priority": priority })).await;
    }
    assert_eq!(age(&stand, "soon").await, 3_605.0);
}

#[tokio::test]
async fn what_is_held_waits_for_no_worker_and_a_lane_that_is_paused_says_so() {
    let stand = Stand::new().await;
    let held = stand.submit(json!({ "kind": "a", "lane": "slow" })).await;
    stand.submit(json!({ "kind": "a", "lane": "slow" })).await;
    assert_eq!(figure(&stand, "depth", "slow").await, 2.0);
    stand.post(&format!("/v1/executions/{held}/hold"), json!({})).await.good();
    let told = (figure(&stand, "depth", "slow").await, figure(&stand, "paused", "slow").await);
    assert_eq!(told, (1.0, 0.0));
    let pause = stand.send("PATCH", "/v1/lanes/slow", Some(json!({ "mode": "paused" })), &[]).await;
    pause.good();
    let told = (figure(&stand, "depth", "slow").await, figure(&stand, "paused", "slow").await);
    assert_eq!(told, (1.0, 1.0));
}
