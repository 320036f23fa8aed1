//! Every filter of the list of executions finds the one it describes, and no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::Ms;
use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use ff_store::{ManualClock, MemoryStore};
use serde_json::{Value, json};

use crate::stand::Stand;

const START: Ms = 1_800_000_000_000;

/// A server whose time stands still until it is moved, so that no two executions are of the same moment.
async fn stand() -> (Arc<ManualClock>, Stand) {
    let clock = Arc::new(ManualClock::at(START));
    let store = MemoryStore::with_clock(1, clock.clone());
    let config = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    let engine = Engine::start(Arc::new(store.another()), config).await.unwrap();
    let config = Config { clock: clock.clone(), ..Config::default() };
    (clock, Stand::on(store, engine, config).await)
}

/// Executions by what is particular about each.
async fn executions(clock: &ManualClock, stand: &Stand) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::new();
    for (what, body) in [
        ("plain", json!({ "kind": "a" })),
        ("namespace", json!({ "kind": "a", "namespace": "other" })),
        ("lane", json!({ "kind": "a", "lane": "billing" })),
        ("kind", json!({ "kind": "charge" })),
        ("tag", json!({ "kind": "a", "tags": { "team": "billing", "stage": "live" } })),
        ("held", json!({ "kind": "a" })),
        ("completed", json!({ "kind": "a", "lane": "completes" })),
        ("failed", json!({ "kind": "a", "lane": "fails" })),
        ("running", json!({ "kind": "a", "lane": "runs" })),
        ("late", json!({ "kind": "a" })),
    ] {
        clock.advance(100);
        ids.insert(what, stand.submit(body).await);
    }
    clock.advance(100);
    let flow = json!({ "nodes": [{ "name": "n", "run": { "kind": "a", "lane": "elsewhere" } }] });
    let flow = stand.post("/v1/flows", flow).await.good();
    ids.insert("member", flow["nodes"]["n"].as_str().unwrap().to_owned());
    ids.insert("flow", flow["flow"]["id"].as_str().unwrap().to_owned());

    stand.post(&format!("/v1/executions/{}/hold", ids["held"]), json!({})).await.good();
    let claim = async |name: &str, lane: &str| {
        let worker = stand.post("/v1/workers", json!({ "name": name })).await.good();
        let worker = worker["id"].as_str().unwrap().to_owned();
        let claim = json!({ "name": name, "lanes": [lane], "wait_ms": 20_000 });
        let lease = stand.claim(&worker, claim).await[0]["lease"].clone();
        (worker, lease)
    };
    let (_, lease) = claim("w", "completes").await;
    stand.post("/v1/tasks/complete", json!({ "tasks": [{ "lease": lease }] })).await.good();
    let (_, lease) = claim("w", "fails").await;
    let error = json!({ "code": "no_funds", "message": "the account is empty", "class": "fatal" });
    stand.post("/v1/tasks/fail", json!({ "tasks": [{ "lease": lease, "error": error }] })).await.good();
    let (instance, _) = claim("wanda", "runs").await;
    ids.insert("instance", instance);
    ids
}

#[tokio::test]
async fn every_filter_finds_exactly_what_it_describes() {
    let (clock, stand) = stand().await;
    let ids = executions(&clock, &stand).await;
    let late = stand.get(&format!("/v1/executions/{}", ids["late"])).await.good();
    let late = ff_api::time::Time::parse(late["created_at"].as_str().unwrap()).unwrap().0;
    for (filter, what) in [
        ("namespace=other".to_owned(), "namespace"),
        ("lane=billing".to_owned(), "lane"),
        ("kind=charge".to_owned(), "kind"),
        ("state=completed".to_owned(), "completed"),
        ("state=failed".to_owned(), "failed"),
        ("state=active".to_owned(), "running"),
        ("reason=paused_by_operator".to_owned(), "held"),
        ("tag=team%3Dbilling".to_owned(), "tag"),
        ("tag=team%3Dbilling&tag=stage%3Dlive".to_owned(), "tag"),
        (format!("created_from={late}&created_before={}", late + 1), "late"),
        (format!("created_from={}&created_before={}", late - 99, late + 100), "late"),
        (format!("flow={}", ids["flow"]), "member"),
        ("worker=wanda".to_owned(), "running"),
        (format!("instance={}", ids["instance"]), "running"),
        ("error_code=no_funds".to_owned(), "failed"),
        ("error_text=account".to_owned(), "failed"),
        ("state=failed,completed&lane=fails".to_owned(), "failed"),
    ] {
        let page = stand.get(&format!("/v1/executions?{filter}")).await.good();
        let found: Vec<&Value> = page["executions"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(found, [&json!(ids[what])], "{filter}");
        let count = stand.get(&format!("/v1/executions/count?{filter}")).await.good();
        assert_eq!(count["count"], 1, "{filter}");
    }
    for nothing in ["tag=team%3Dbilling&tag=stage%3Dtest", "kind=charge&lane=billing", "error_text=funds"] {
        let page = stand.get(&format!("/v1/executions?{nothing}")).await.good();
        assert_eq!(page["executions"], json!([]), "{nothing}");
    }
}

/// There is no cursor that leads back: the other order, from the first of a page, gives what was before it.
#[tokio::test]
async fn the_page_before_is_the_other_order_from_the_first_of_a_page() {
    let (clock, stand) = stand().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        clock.advance(100);
        ids.push(stand.submit(json!({ "kind": "a" })).await);
    }
    let page = async |query: String| {
        let page = stand.get(&format!("/v1/executions?limit=2&{query}")).await.good();
        let found =
            page["executions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
        (found.collect::<Vec<_>>(), page["next_cursor"].as_str().map(str::to_owned))
    };
    let (first, next) = page("order=oldest_first".to_owned()).await;
    assert_eq!(first, ids[..2]);
    let (second, _) = page(format!("order=oldest_first&cursor={}", next.unwrap())).await;
    assert_eq!(second, ids[2..4]);
    let (before, _) = page(format!("order=newest_first&cursor={}", second[0])).await;
    assert_eq!(before, [ids[1].clone(), ids[0].clone()]);
}
