//! Every route, and what belongs to another namespace: real work, with its real lease and waitpoint, in the hands of
//! somebody who is limited to another one.

use ff_core::registry::Role;
use ff_server::access::allows;
use serde_json::{Value, json};

use crate::roles::{body, filled, needs, routes};
use crate::stand::{Answer, Stand};

/// How a route keeps what is not one's own. A route without a rule fails the test.
enum Rule {
    /// It is about one thing, which is not there.
    Hidden(&'static str),
    /// It is about a lease: a worker's word for work that is not there.
    Lease(Value),
    /// It is asked by namespace.
    Asked,
    /// Something is made in a namespace.
    Made(Value),
    /// It concerns all namespaces: whoever is limited to some is refused, whatever its role.
    Everything,
    /// It tells nothing of any namespace: everybody may ask.
    Open,
    /// It has a test of its own, of this name.
    HeldBy(&'static str),
}

fn rule(method: &str, path: &str, lease: &Value) -> Rule {
    use Rule::*;
    let one = |more: Value| {
        let mut task = json!({ "lease": lease });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let batch = |more: Value| Lease(json!({ "tasks": [one(more)] }));
    let there = json!({ "namespace": "theirs" });
    match (method, path) {
        (_, path) if path.starts_with("/v1/executions/{id}") => Hidden("execution"),
        (_, path) if path.starts_with("/v1/flows/{id}") => Hidden("flow"),
        (_, path) if path.starts_with("/v1/waitpoints/{id}") => Hidden("waitpoint"),
        (
            "get",
            "/v1/executions" | "/v1/executions/count" | "/v1/flows" | "/v1/waitpoints" | "/v1/events",
        ) => Asked,
        ("post", "/v1/executions") => Made(json!({ "kind": "a", "namespace": "theirs" })),
        ("post", "/v1/flows") => {
            Made(json!({ "namespace": "theirs", "nodes": [{ "run": { "kind": "a" } }] }))
        }
        ("post", "/v1/bulk/priority") => Made(json!({ "filter": there, "priority": 1 })),
        ("post", "/v1/bulk/cancel" | "/v1/bulk/replay") => Made(json!({ "filter": there })),
        ("post", "/v1/tasks/complete" | "/v1/tasks/release") => batch(json!({})),
        ("post", "/v1/tasks/fail") => batch(json!({ "error": { "message": "no" } })),
        ("post", "/v1/tasks/delay") => batch(json!({ "delay_ms": 1_000 })),
        ("post", "/v1/tasks/progress") => batch(json!({ "percent": 1 })),
        ("post", "/v1/tasks/frames") => {
            batch(json!({ "first": 1, "frames": [{ "kind": "text", "text": "x" }] }))
        }
        ("post", "/v1/tasks/steps") => {
            batch(json!({ "steps": [{ "step": { "name": "s", "number": 1 }, "result": 1 }] }))
        }
        ("post", "/v1/tasks/suspend") => batch(json!({ "condition": { "signal": { "name": "go" } } })),
        ("post", "/v1/tasks/waitpoint") => Lease(one(json!({ "waitpoint": {} }))),
        ("post", "/v1/tasks/child") => Lease(one(json!({ "run": { "kind": "a" } }))),
        ("post", "/v1/tasks/expand") => Lease(one(json!({ "nodes": [{ "run": { "kind": "a" } }] }))),
        (_, path) if path.starts_with("/v1/workers/{id}") => {
            HeldBy("who_is_limited_to_namespaces_touches_its_own_workers_only")
        }
        (_, "/v1/bulk" | "/v1/bulk/{id}" | "/v1/bulk/{id}/stop") => {
            HeldBy("a_token_of_some_namespaces_reaches_no_others_and_sees_no_others")
        }
        (_, path) if path.starts_with("/v1/dead-letters") => {
            HeldBy("letters_of_other_namespaces_are_not_there_and_viewers_see_no_input")
        }
        (_, path) if path.starts_with("/v1/namespaces") => {
            HeldBy("namespaces_are_listed_with_what_is_in_them_to_those_who_may_see_them")
        }
        (_, "/v1/executions/counts" | "/v1/workers") => {
            HeldBy("what_belongs_to_another_namespace_is_not_there")
        }
        ("get", "/healthz" | "/readyz" | "/v1/info" | "/v1/limits" | "/v1/lanes" | "/v1/lanes/{lane}") => {
            Open
        }
        ("get", "/metrics" | "/v1/stats") | ("patch", "/v1/lanes/{lane}") => Everything,
        (_, path) if ["/v1/tokens", "/v1/keys", "/v1/webhooks"].iter().any(|it| path.starts_with(it)) => {
            Everything
        }
        other => panic!("no rule for {other:?}"),
    }
}

struct Theirs {
    execution: String,
    flow: String,
    waitpoint: String,
    lease: Value,
    /// Whoever holds the lease.
    worker: String,
}

/// Work of another namespace: one that runs, one that waits for a signal, and a flow.
async fn theirs(stand: &Stand, admin: &[(&str, &str)]) -> Theirs {
    let send = async |path: &str, body: Value| stand.send("POST", path, Some(body), admin).await.good();
    let worker = send("/v1/workers", json!({ "name": "w" })).await["id"].as_str().unwrap().to_owned();
    let mut tasks = Vec::new();
    for kind in ["runs", "waits"] {
        send("/v1/executions", json!({ "kind": kind, "namespace": "theirs" })).await;
        let claim = json!({ "name": "w", "max": 1, "wait_ms": 20_000 });
        tasks.push(send(&format!("/v1/workers/{worker}/claim"), claim).await["tasks"][0].clone());
    }
    let waits = json!({ "lease": tasks[1]["lease"], "condition": { "signal": { "waitpoint": 1 } }, "waitpoints": [{}] });
    send("/v1/tasks/suspend", json!({ "tasks": [waits] })).await;
    let flow = json!({ "namespace": "theirs", "nodes": [{ "name": "n", "run": { "kind": "none" } }] });
    let flow = send("/v1/flows", flow).await["flow"]["id"].as_str().unwrap().to_owned();
    let id = |task: &Value| task["lease"]["execution"].as_str().unwrap().to_owned();
    let waitpoint = format!("{}-1", id(&tasks[1]));
    Theirs { execution: id(&tasks[0]), flow, waitpoint, lease: tasks[0]["lease"].clone(), worker }
}

/// The text of all tests over HTTP, in which those that hold a rule must be.
fn tests_of_this_folder() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn not_found(answer: &Answer) -> bool {
    let json = answer.json();
    answer.status == 404 || json["outcomes"][0]["problem"]["code"] == "not_found"
}

#[tokio::test]
async fn every_route_keeps_what_belongs_to_another_namespace_from_every_role() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let admin = [("authorization", admin.as_str())];
    let theirs = theirs(&stand, &admin).await;
    let before =
        stand.send("GET", &format!("/v1/executions/{}", theirs.execution), None, &admin).await.good();
    assert_eq!(before["state"], "active");
    let tests = tests_of_this_folder();
    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let bearer = format!("Bearer {}", stand.token(role, &["ours"]).await);
        let headers = [("authorization", bearer.as_str())];
        for (method, path) in routes() {
            let rule = rule(&method, &path, &theirs.lease);
            let is_for_others = needs(&method, &path).is_some_and(|may| !allows(role, may));
            if is_for_others && !matches!(rule, Rule::Everything) {
                continue;
            }
            let verb = method.to_uppercase();
            match rule {
                Rule::Hidden(what) => {
                    let id = match what {
                        "execution" => &theirs.execution,
                        "flow" => &theirs.flow,
                        _ => &theirs.waitpoint,
                    };
                    let real = filled(&path.replace("{id}", id));
                    let answer = stand.send(&verb, &real, body(&method, &path), &headers).await;
                    let hidden = role == Role::Viewer && path.ends_with("/token");
                    let expected = if hidden { 403 } else { 404 };
                    assert_eq!(answer.status, expected, "{role} {method} {path}: {}", answer.json());
                }
                Rule::Lease(task) => {
                    let answer = stand.send(&verb, &path, Some(task), &headers).await;
                    assert!(
                        not_found(&answer),
                        "{role} {method} {path}: {} {}",
                        answer.status,
                        answer.json()
                    );
                }
                Rule::Asked => {
                    let asked = format!("{path}?namespace=theirs");
                    for more in [&[][..], &[("accept", "text/event-stream")]] {
                        let all = [&headers[..], more].concat();
                        let answer = stand.send(&verb, &asked, None, &all).await;
                        assert_eq!(answer.problem(), (403, "forbidden".into()), "{role} {method} {path}");
                    }
                }
                Rule::Made(document) => {
                    let answer = stand.send(&verb, &path, Some(document), &headers).await;
                    assert_eq!(answer.problem(), (403, "forbidden".into()), "{role} {method} {path}");
                }
                Rule::Everything => {
                    let answer = stand.send(&verb, &filled(&path), body(&method, &path), &headers).await;
                    assert_eq!(answer.problem(), (403, "forbidden".into()), "{role} {method} {path}");
                }
                Rule::Open => {
                    let answer = stand.send(&verb, &filled(&path), None, &headers).await;
                    assert_eq!(answer.status, 200, "{role} {method} {path}");
                }
                Rule::HeldBy(test) => assert!(tests.contains(&format!("async fn {test}(")), "no test {test}"),
            }
        }
        if allows(role, ff_server::access::May::Work) {
            let own = stand.send("POST", "/v1/workers", Some(json!({ "name": "w" })), &headers).await.good();
            let beat = format!("/v1/workers/{}/heartbeat", own["id"].as_str().unwrap());
            let leases = json!({ "leases": [theirs.lease] });
            let renewed = stand.send("POST", &beat, Some(leases), &headers).await.good();
            assert_eq!(renewed["leases"][0]["problem"]["code"], "not_found", "{role}: {renewed}");
            assert_eq!(renewed["leases"][0]["expires_at"], json!(null), "{role}: {renewed}");
        }
    }
    let after = stand.send("GET", &format!("/v1/executions/{}", theirs.execution), None, &admin).await.good();
    assert_eq!(after, before, "nobody has touched it");
    let own = format!("Bearer {}", stand.token(Role::Operator, &["theirs"]).await);
    let issue = format!("/v1/waitpoints/{}/token", theirs.waitpoint);
    let issued = stand.send("POST", &issue, None, &[("authorization", own.as_str())]).await.good();
    assert_eq!(issued["waitpoint"], theirs.waitpoint, "operators make tokens in their own namespace");
    let done = json!({ "tasks": [{ "lease": theirs.lease }] });
    let done = stand.send("POST", "/v1/tasks/complete", Some(done), &admin).await.good();
    assert_eq!(done["outcomes"][0]["answer"]["outcome"], "completed", "{done} {}", theirs.worker);
}
