//! What one request reads and gives is bounded, however much there is.

use std::sync::Arc;

use ff_core::inbox::Posted;
use ff_core::{ExecutionId, Payload, Route};
use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use ff_store::{ManualClock, MemoryStore};
use serde_json::json;

use crate::stand::Stand;

/// Numbers of all dead letters, and how many each page had.
async fn letters(stand: &Stand, limit: u32) -> (Vec<u64>, Vec<usize>) {
    let (mut numbers, mut pages, mut after) = (Vec::new(), Vec::new(), json!(0));
    while !after.is_null() {
        let page = stand.get(&format!("/v1/dead-letters?limit={limit}&after={after}")).await.good();
        let letters = page["dead_letters"].as_array().unwrap();
        numbers.extend(letters.iter().map(|it| it["number"].as_u64().unwrap()));
        pages.push(letters.len());
        after = page["next_after"].clone();
    }
    (numbers, pages)
}

#[tokio::test]
async fn a_page_of_large_dead_letters_is_a_short_one() {
    let store = MemoryStore::new(3);
    let engine = Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap();
    let stand = Stand::on(store, engine, Config::default()).await;
    let large = Payload::json(format!("\"{}\"", "x".repeat(3 << 20)));
    for number in 1..=60 {
        stand.store.post(Posted {
            number,
            // In each partition, by turns.
            id: Some(ExecutionId::from_parts(1, Route(number as u16), number)),
            posted_at: 1,
            kind: "work".to_owned(),
            input: if number <= 12 { large.clone() } else { Payload::json("1") },
            namespace: None,
            lane: None,
            key: None,
            options: Some(r#"{"priority":1000}"#.to_owned()),
        });
    }
    for number in 1..=60 {
        while stand.engine.dead_letter(number).await.unwrap().is_none() {
            stand.engine.nudge().await;
        }
    }
    let all: Vec<u64> = (1..=60).collect();
    assert_eq!(letters(&stand, 10_000).await, (all.clone(), vec![5, 5, 50]));
    assert_eq!(letters(&stand, 3).await, (all.clone(), vec![3; 20]));
    assert_eq!(letters(&stand, 30).await, (all, vec![5, 5, 30, 20]));
}

#[tokio::test]
async fn a_page_of_large_steps_is_a_short_one() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "work" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    for number in 0..20 {
        let result = if number < 8 { "x".repeat(3 << 20) } else { String::new() };
        let step =
            json!({ "step": { "name": "s", "occurrence": number, "number": number }, "result": result });
        let done = json!({ "tasks": [{ "lease": task["lease"], "steps": [step] }] });
        stand.post("/v1/tasks/steps", done).await.good();
    }
    for (limit, pages) in [("", vec![5, 15]), ("limit=4&", vec![4; 5]), ("limit=10&", vec![5, 10, 5])] {
        let (mut numbers, mut counts, mut after) = (Vec::new(), Vec::new(), json!(0));
        while !after.is_null() {
            let path = format!("/v1/executions/{id}/steps?{limit}after={after}");
            let page = stand.get(&path).await.good();
            let steps = page["steps"].as_array().unwrap();
            numbers.extend(steps.iter().map(|it| it["occurrence"].as_u64().unwrap()));
            counts.push(steps.len());
            after = page["next_after"].clone();
        }
        assert_eq!((numbers, counts), ((0..20).collect(), pages), "{limit}");
    }
    let wrong = stand.get(&format!("/v1/executions/{id}/steps?limit=0")).await;
    assert_eq!(wrong.problem(), (400, "invalid".to_owned()));
}

#[tokio::test]
async fn the_events_of_an_execution_are_looked_for_from_its_creation_on() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = MemoryStore::with_clock(1, clock.clone());
    let settings = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(store.another()), settings).await.unwrap();
    let stand = Stand::on(store, engine, Config { event_looks_max: 1, ..Config::default() }).await;
    let many: Vec<_> = (0..600).map(|_| json!({ "kind": "early" })).collect();
    stand.post("/v1/executions", json!({ "executions": many })).await.good();
    clock.advance(1_000);
    stand.engine.nudge().await;
    let id = stand.submit(json!({ "kind": "late" })).await;
    let first = async |query: &str| {
        let page = stand.get(&format!("/v1/executions/{id}/events{query}")).await.good();
        page["events"][0]["event"].clone()
    };
    assert_eq!(first("?wait=10s").await, "created");
    assert_eq!(first("?start=beginning").await, json!(null), "what was asked for is not changed");
    assert_eq!(first("?start=now").await, json!(null));
}

#[tokio::test]
async fn a_graph_of_no_members_says_that_there_are_more() {
    let stand = Stand::new().await;
    let nodes = json!([{ "name": "n", "run": { "kind": "a" } }]);
    let made = stand.post("/v1/flows", json!({ "nodes": nodes })).await.good();
    let id = made["flow"]["id"].as_str().unwrap();
    let graph = async |limit: u32| {
        let graph = stand.get(&format!("/v1/flows/{id}/graph?limit={limit}")).await.good();
        (graph["members"].as_array().unwrap().len(), graph["more"].clone())
    };
    assert_eq!(graph(0).await, (0, json!(true)));
    assert_eq!(graph(1).await, (1, json!(false)));
    let empty = stand.post("/v1/flows", json!({ "nodes": [] })).await.good();
    let path = format!("/v1/flows/{}/graph?limit=0", empty["flow"]["id"].as_str().unwrap());
    assert_eq!(stand.get(&path).await.good()["more"], false);
}

#[tokio::test]
async fn a_head_that_is_too_large_gets_a_problem_with_an_id() {
    let stand = Stand::new().await;
    // Just above the bound, so that all of it is there when it is looked at.
    let long = "y".repeat((64 << 10) - 20);
    let answer = stand.send("GET", "/healthz", None, &[("x-request-id", "mine"), ("x-long", &long)]).await;
    assert_eq!(answer.problem(), (431, "head_too_large".to_owned()));
    assert!(answer.head.contains("x-request-id: mine"), "{}", answer.head);
}
