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
    Hidden,
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

/// Whether a path leads to one thing of a kind, or to a part of it.
fn is_one_of(path: &str, things: &str) -> bool {
    path.starts_with(&format!("/v1/{things}/{{id}}"))
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
        (_, path) if ["executions", "flows", "waitpoints"].iter().any(|it| is_one_of(path, it)) => Hidden,
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
        (_, path) if path.starts_with("/v1/workers") => {
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
        (_, "/v1/executions/counts") => HeldBy("what_belongs_to_another_namespace_is_not_there"),
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

/// What there is of one namespace.
struct Work {
    /// It runs.
    execution: String,
    flow: String,
    /// Two nodes of the flow, and an edge from the one to the other.
    nodes: [String; 2],
    waitpoint: String,
    lease: Value,
    /// Whoever holds the lease.
    worker: String,
}

impl Work {
    /// One that runs, one that waits for a signal, and a flow.
    async fn new(stand: &Stand, admin: &[(&str, &str)], namespace: &str) -> Work {
        let send = async |path: &str, body: Value| stand.send("POST", path, Some(body), admin).await.good();
        // All of it stays as it is while all routes are asked, however long that takes.
        let worker = json!({ "name": "w", "ttl_ms": 3_600_000 });
        let worker = send("/v1/workers", worker).await["id"].as_str().unwrap().to_owned();
        let mut tasks = Vec::new();
        for kind in ["runs", "waits"] {
            let policy = json!({ "lease_ms": 3_600_000 });
            send("/v1/executions", json!({ "kind": kind, "namespace": namespace, "policy": policy })).await;
            let claim = json!({ "name": "w", "max": 1, "wait_ms": 20_000, "namespaces": [namespace] });
            tasks.push(send(&format!("/v1/workers/{worker}/claim"), claim).await["tasks"][0].clone());
        }
        let waits = json!({ "lease": tasks[1]["lease"], "condition": { "signal": { "waitpoint": 1 } }, "waitpoints": [{}] });
        send("/v1/tasks/suspend", json!({ "tasks": [waits] })).await;
        let nodes = ["n", "m"].map(|name| json!({ "name": name, "run": { "kind": "none" } }));
        let edges = json!([{ "from": "n", "to": "m" }]);
        let flow = json!({ "namespace": namespace, "nodes": nodes, "edges": edges, "sealed": false });
        let flow = send("/v1/flows", flow).await;
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        let waitpoint = format!("{}-1", id(&tasks[1]["lease"]["execution"]));
        Work {
            execution: id(&tasks[0]["lease"]["execution"]),
            flow: id(&flow["flow"]["id"]),
            nodes: ["n", "m"].map(|name| id(&flow["nodes"][name])),
            waitpoint,
            lease: tasks[0]["lease"].clone(),
            worker,
        }
    }

    /// A path that leads to something of it that is there.
    fn path(&self, path: &str) -> String {
        let [node, downstream] = &self.nodes;
        let id = match path.split('/').nth(2) {
            Some("executions") if path.contains("/edges") => node,
            Some("executions") => &self.execution,
            Some("flows") => &self.flow,
            _ => &self.waitpoint,
        };
        path.replace("{id}", id).replace("{node}", node).replace("{downstream}", downstream)
    }

    /// What nobody else may read anywhere.
    fn ids(&self) -> Vec<&str> {
        let [node, downstream] = &self.nodes;
        let suspended = self.waitpoint.strip_suffix("-1").unwrap();
        vec![&self.execution, suspended, &self.flow, node, downstream, &self.worker]
    }

    /// The flow and what runs, as whoever may see everything sees them.
    async fn stands(&self, stand: &Stand, admin: &[(&str, &str)]) -> Vec<Value> {
        let mut found = Vec::new();
        for path in ["/v1/executions/{id}", "/v1/flows/{id}", "/v1/flows/{id}/graph", "/v1/waitpoints/{id}"] {
            found.push(stand.send("GET", &self.path(path), None, admin).await.good());
        }
        found
    }
}

/// The text of a test over HTTP.
fn text_of(test: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let text: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let (_, begins) =
        text.split_once(&format!("async fn {test}(")).unwrap_or_else(|| panic!("no test {test}"));
    begins.split("\n}\n").next().unwrap().to_owned()
}

/// A test that holds the rule of a route has every part of its path in its text.
fn assert_held_by(test: &str, path: &str) {
    let text = text_of(test);
    for part in path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{')) {
        let asks = [format!("/{part}/"), format!("/{part}\""), format!("/{part}?")];
        assert!(asks.iter().any(|it| text.contains(it)), "{test} does not ask for {path}");
    }
}

fn not_found(answer: &Answer) -> bool {
    let json = answer.json();
    answer.status == 404 || json["outcomes"][0]["problem"]["code"] == "not_found"
}

/// Whoever says no namespace gets its own, and nothing of others.
async fn assert_narrowed(
    stand: &Stand,
    path: &str,
    headers: &[(&str, &str)],
    (ours, theirs): (&Work, &Work),
) {
    let text = match path {
        "/v1/executions/count" => {
            let count = stand.send("GET", path, None, headers).await.good();
            // One runs, one waits, and two are nodes.
            assert_eq!(count, json!({ "count": 4, "more": false }));
            return;
        }
        "/v1/events" => {
            let page = format!("{path}?start=beginning&limit=10000");
            let page = stand.send("GET", &page, None, headers).await.good().to_string();
            // What is ours was made last: when it has come, everything else has had its turn.
            let live = stand.follow(&format!("{path}?start=beginning"), headers, &ours.nodes[1]).await;
            assert!(live.contains(&ours.nodes[1]), "{live}");
            page + &live
        }
        _ => stand.send("GET", path, None, headers).await.good().to_string(),
    };
    let known = match path {
        "/v1/flows" => &ours.flow,
        "/v1/waitpoints" => &ours.waitpoint,
        _ => &ours.execution,
    };
    assert!(text.contains(known), "{path}: {text}");
    for id in theirs.ids() {
        assert!(!text.contains(id), "{path} tells of {id}: {text}");
    }
}

#[tokio::test]
async fn every_route_keeps_what_belongs_to_another_namespace_from_every_role() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let admin = [("authorization", admin.as_str())];
    let theirs = Work::new(&stand, &admin, "theirs").await;
    let ours = Work::new(&stand, &admin, "ours").await;
    let before = theirs.stands(&stand, &admin).await;
    assert_eq!(before[0]["state"], "active");
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
                Rule::Hidden => {
                    let real = theirs.path(&path);
                    if method == "get" {
                        let there = stand.send(&verb, &real, None, &admin).await;
                        assert_ne!(there.status, 404, "{real} is there for who may see it");
                        // A stream that is opened all the same would not end.
                        let stream = stand.follow(&real, &headers, "\r\n\r\n").await;
                        assert!(stream.starts_with("HTTP/1.1 404"), "{role} {method} {path}: {stream}");
                    }
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
                    assert_narrowed(&stand, &path, &headers, (&ours, &theirs)).await;
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
                Rule::HeldBy(test) => assert_held_by(test, &path),
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
    assert_eq!(theirs.stands(&stand, &admin).await, before, "nobody has touched it");
    let own = format!("Bearer {}", stand.token(Role::Operator, &["theirs"]).await);
    let issue = format!("/v1/waitpoints/{}/token", theirs.waitpoint);
    let issued = stand.send("POST", &issue, None, &[("authorization", own.as_str())]).await.good();
    assert_eq!(issued["waitpoint"], theirs.waitpoint, "operators make tokens in their own namespace");
    let done = json!({ "tasks": [{ "lease": theirs.lease }] });
    let done = stand.send("POST", "/v1/tasks/complete", Some(done), &admin).await.good();
    assert_eq!(done["outcomes"][0]["answer"]["outcome"], "completed", "{done}");
}
