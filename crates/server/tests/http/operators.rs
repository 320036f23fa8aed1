//! What operators see: who changed what, figures that count, and whether requests should come here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::registry::Role;
use ff_server::Config;
use ff_store::ManualClock;
use serde_json::{Value, json};

use crate::stand::Stand;

#[tokio::test]
async fn whatever_operators_do_is_an_event_under_the_name_of_their_token() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let headers = [("authorization", admin.as_str())];
    let send = async |method: &str, path: &str, body: Value| {
        stand.send(method, path, Some(body), &headers).await.good()
    };
    let id = send("POST", "/v1/executions", json!({ "kind": "a", "delay_ms": 3_600_000 })).await;
    let id = id["id"].as_str().unwrap().to_owned();
    let why = json!({ "actor": "ada", "cause": "maintenance" });
    send("POST", &format!("/v1/executions/{id}/hold"), why.clone()).await;
    send("POST", &format!("/v1/executions/{id}/release"), why.clone()).await;
    let priority = json!({ "priority": 3, "actor": "ada", "cause": "maintenance" });
    send("POST", &format!("/v1/executions/{id}/priority"), priority).await;
    send("PATCH", "/v1/lanes/billing", json!({ "mode": "paused", "actor": "ada", "cause": "maintenance" }))
        .await;
    send("POST", "/v1/keys/rotate", why.clone()).await;
    let token = json!({ "name": "ci", "role": "viewer", "actor": "ada", "cause": "maintenance" });
    let token = send("POST", "/v1/tokens", token).await;
    let token = format!("/v1/tokens/{}", token["token"]["id"].as_str().unwrap());
    send("DELETE", &token, why.clone()).await;
    let hook = json!({ "url": "https://example.org/", "actor": "ada", "cause": "maintenance" });
    send("PUT", "/v1/webhooks/chat", hook).await;
    send("DELETE", "/v1/webhooks/chat", why.clone()).await;
    let tags = json!({ "set": { "team": "billing" }, "actor": "ada", "cause": "maintenance" });
    send("POST", &format!("/v1/executions/{id}/tags"), tags).await;
    send("POST", &format!("/v1/executions/{id}/cancel"), why.clone()).await;
    send("POST", &format!("/v1/executions/{id}/replay"), why.clone()).await;

    let worker = send("POST", "/v1/workers", json!({ "name": "w" })).await;
    let worker = format!("/v1/workers/{}", worker["id"].as_str().unwrap());
    let claim = async || {
        let claim = json!({ "name": "w", "wait_ms": 20_000 });
        send("POST", &format!("{worker}/claim"), claim).await["tasks"][0]["lease"].clone()
    };
    claim().await;
    send("POST", &format!("/v1/executions/{id}/revoke"), why.clone()).await;
    let suspending = json!({ "lease": claim().await, "condition": { "signal": { "name": "go" } } });
    send("POST", "/v1/tasks/suspend", json!({ "tasks": [suspending] })).await;
    send("POST", &format!("/v1/executions/{id}/resume"), why.clone()).await;
    claim().await;
    let asked = json!({ "actor": "ada", "cause": "maintenance", "grace_ms": 60_000 });
    send("POST", &format!("/v1/executions/{id}/cancel"), asked).await;
    send("POST", &format!("{worker}/drain"), why.clone()).await;
    send("DELETE", &worker, why.clone()).await;

    for _ in 0..5 {
        send("POST", "/v1/executions", json!({ "kind": "many", "lane": "elsewhere" })).await;
    }
    // So slow that it is under way when it is stopped.
    let bulk = json!({ "filter": { "kind": "many" }, "priority": 3, "rate": 1, "actor": "ada", "cause": "maintenance" });
    let bulk = send("POST", "/v1/bulk/priority", bulk).await["id"].as_str().unwrap().to_owned();
    send("POST", &format!("/v1/bulk/{bulk}/stop"), why.clone()).await;

    let page = stand.send("GET", "/v1/events?start=beginning&limit=1000", None, &headers).await;
    let page = page.good();
    let events = page["events"].as_array().unwrap();
    for fact in [
        "held",
        "unheld",
        "priority_changed",
        "lane_changed",
        "key_rotated",
        "token_created",
        "token_revoked",
        "webhook_set",
        "webhook_removed",
        "tagged",
        "cancelled",
        "replayed",
        "lease_revoked",
        "resumed",
        "cancel_requested",
        "worker_drained",
        "worker_died",
        "bulk_started",
        "bulk_stopped",
    ] {
        let event = events.iter().rfind(|event| event["event"] == fact);
        let event = event.unwrap_or_else(|| panic!("{fact} is no event: {page}"));
        // A suspension ends by many things; which operator it was stands beside.
        let by = if fact == "resumed" { &event["fact"]["operator"] } else { &event["fact"]["by"] };
        assert_eq!(by["actor"], "admin-token/ada", "{event}");
        assert_eq!(by["cause"], "maintenance", "{event}");
    }
}

/// The samples of the text that Prometheus reads, by name and labels.
async fn samples(stand: &Stand) -> BTreeMap<String, f64> {
    let text = String::from_utf8(stand.get("/metrics").await.body).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

#[tokio::test]
async fn metrics_count_what_has_happened_and_buckets_add_up() {
    let stand = Stand::new().await;
    for _ in 0..3 {
        stand.submit(json!({ "kind": "a", "lane": "billing" })).await;
    }
    let before = samples(&stand).await;
    let of = |samples: &BTreeMap<String, f64>, name: &str| {
        *samples.get(name).unwrap_or_else(|| panic!("no {name} in {samples:#?}"))
    };
    assert_eq!(of(&before, r#"flowfabric_queue_depth{lane="billing"}"#), 3.0);
    assert_eq!(of(&before, r#"flowfabric_executions{lane="billing",state="waiting"}"#), 3.0);
    assert_eq!(of(&before, "flowfabric_time_to_start_seconds_count"), 0.0);
    let requests = r#"flowfabric_http_requests_total{route="/v1/executions",status="201"}"#;
    assert_eq!(of(&before, requests), 3.0);

    let worker = stand.worker().await;
    let claim = json!({ "name": "tester", "lanes": ["billing"], "max": 2, "wait_ms": 5_000 });
    let tasks = stand.claim(&worker, claim).await;
    let leases: Vec<Value> = tasks.iter().map(|task| json!({ "lease": task["lease"] })).collect();
    stand.post("/v1/tasks/complete", json!({ "tasks": leases })).await.good();
    let after = samples(&stand).await;
    let (started, ended) = (tasks.len() as f64, tasks.len() as f64);
    assert_eq!(of(&after, r#"flowfabric_queue_depth{lane="billing"}"#), 3.0 - started);
    assert_eq!(of(&after, r#"flowfabric_executions{lane="billing",state="completed"}"#), ended);
    assert_eq!(of(&after, "flowfabric_time_to_start_seconds_count"), started);
    assert_eq!(of(&after, "flowfabric_run_seconds_count"), ended);
    assert!(of(&after, "flowfabric_commits_total") > of(&before, "flowfabric_commits_total"));

    // Each bucket holds those before it, and the last holds all.
    for name in ["flowfabric_time_to_start_seconds", "flowfabric_run_seconds", "flowfabric_batch_commands"] {
        let prefix = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = after
            .iter()
            .filter(|(it, _)| it.starts_with(&prefix))
            .map(|(it, count)| {
                let bound = it.split("le=\"").nth(1).unwrap().split('"').next().unwrap();
                (if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() }, *count)
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
        assert_eq!(buckets.last().unwrap(), &(f64::INFINITY, of(&after, &format!("{name}_count"))));
    }
}

/// Whoever reads the list of metrics finds each of them at `/metrics`, and nothing else, once there was work of every
/// kind that counts.
#[tokio::test]
async fn exactly_the_metrics_that_are_listed_are_told_once_work_has_started_failed_and_come_due() {
    let stand = Stand::new().await;
    let worker = stand.worker().await;
    let retried = json!({ "max_attempts": 2, "backoff": { "initial_ms": 1, "max_ms": 1, "jitter": "none" } });
    stand.submit(json!({ "kind": "a", "delay_ms": 1, "policy": retried })).await;
    for _ in 0..2 {
        let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 20_000 })).await.remove(0);
        let failing = json!({ "tasks": [{ "lease": task["lease"], "error": { "message": "no" } }] });
        stand.post("/v1/tasks/fail", failing).await.good();
    }
    stand.submit(json!({ "kind": "a", "lane": "elsewhere" })).await;
    let text = String::from_utf8(stand.get("/metrics").await.body).unwrap();
    let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let listed = ff_server::metrics::NAMES.iter().map(|(name, kind, _)| (*name, *kind));
    assert_eq!(told.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
    for (name, kind, _) in ff_server::metrics::NAMES {
        let sample = if *kind == "histogram" { format!("{name}_count") } else { (*name).to_owned() };
        assert!(text.lines().any(|line| line.starts_with(&sample)), "{sample} has no value");
    }
}

/// Nobody can make a server remember without end: neither by lanes nor by paths.
#[tokio::test]
async fn metrics_stay_few_whatever_callers_make_up() {
    let stand = Stand::new().await;
    let executions: Vec<Value> =
        (0..150).map(|n| json!({ "kind": "a", "lane": format!("lane-{n}") })).collect();
    stand.post("/v1/executions", json!({ "executions": executions })).await.good();
    for n in 0..20 {
        stand.get(&format!("/v1/made-up/{n}")).await;
    }
    let samples = samples(&stand).await;
    let depths: Vec<_> =
        samples.iter().filter(|(name, _)| name.starts_with("flowfabric_queue_depth")).collect();
    assert_eq!(depths.len(), 101, "a hundred lanes and all others");
    assert_eq!(samples[r#"flowfabric_queue_depth{lane="other"}"#], 50.0);
    assert_eq!(depths.iter().map(|(_, depth)| **depth).sum::<f64>(), 150.0);
    assert!(!samples.keys().any(|name| name.contains("made-up")), "{samples:#?}");
}

#[tokio::test]
async fn a_server_without_its_store_lives_and_is_not_ready_until_it_is_back() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let stand = Stand::with(Config { clock: clock.clone(), ..Config::default() }).await;
    assert_eq!(stand.get("/readyz").await.good()["status"], "ok");
    stand.store.faults().start_outage();
    clock.advance(1_000);
    assert_eq!(stand.get("/readyz").await.problem(), (503, "unavailable".into()));
    assert_eq!(stand.get("/healthz").await.good()["status"], "ok");
    stand.store.faults().end_outage();
    clock.advance(1_000);
    assert_eq!(stand.get("/readyz").await.good()["status"], "ok");
}

#[tokio::test]
async fn problems_tell_nothing_of_what_is_inside() {
    let stand = Stand::new().await;
    let id = stand.submit(serde_json::json!({ "kind": "a" })).await;
    stand.store.faults().start_outage();
    let paths = [
        "/readyz",
        "/v1/executions",
        &format!("/v1/executions/{id}"),
        "/v1/executions/count?error_text=x",
        "/v1/flows",
        "/v1/waitpoints",
        "/v1/dead-letters",
        "/v1/events?start=beginning",
    ];
    for path in paths {
        let answer = stand.get(path).await;
        assert_eq!(answer.problem(), (503, "unavailable".into()), "{path}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        // What the memory store says of its outage.
        assert!(!text.contains("out of reach"), "{path}: {text}");
    }
    stand.store.faults().end_outage();
}

#[tokio::test]
async fn nobody_waits_longer_than_the_server_allows() {
    let stand =
        Stand::with(Config { wait_max: std::time::Duration::from_millis(20), ..Config::default() }).await;
    let id = stand.submit(json!({ "kind": "a", "lane": "elsewhere" })).await;
    let started = std::time::Instant::now();
    let result = stand.get(&format!("/v1/executions/{id}/result?wait=50s")).await.good();
    assert_eq!(result["ended"], false);
    let worker = stand.worker().await;
    assert!(stand.claim(&worker, json!({ "name": "tester", "wait_ms": 50_000 })).await.is_empty());
    assert!(started.elapsed().as_secs() < 25, "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_limits_of_the_server_are_told_beside_those_of_the_rules_and_hold() {
    let config = Config {
        body_bytes_max: 1_000,
        depth_max: 5,
        wait_max: std::time::Duration::from_millis(20),
        ..Config::default()
    };
    let stand = Stand::with(config).await;
    let limits = stand.get("/v1/limits").await.good();
    for (name, value) in [
        ("body_bytes_max", 1_000),
        ("signal_body_bytes_max", 1_000),
        ("depth_max", 5),
        ("wait_ms_max", 20),
        ("page_items_max", 10_000),
        ("tags_max", 64),
    ] {
        assert_eq!(limits[name], value, "{name}");
    }
    let schema = &ff_server::openapi()["components"]["schemas"]["LimitsDoc"];
    let (told, documented) = (limits.as_object().unwrap(), schema["properties"].as_object().unwrap());
    assert_eq!(told.keys().collect::<Vec<_>>(), documented.keys().collect::<Vec<_>>());

    let large = stand.post("/v1/executions", json!({ "kind": "a", "input": "x".repeat(1_000) })).await;
    assert_eq!(large.problem(), (413, "too_large".into()));
    let deep = stand.post("/v1/executions", json!({ "kind": "a", "input": [[[[[]]]]] })).await;
    assert_eq!(deep.problem(), (400, "invalid".into()));
    let page = async |limit: u32| stand.get(&format!("/v1/executions?limit={limit}")).await.status;
    assert_eq!((page(10_000).await, page(10_001).await), (200, 400));
}
