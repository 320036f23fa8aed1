//! Every route, every role, and namespaces that are not one's own.

use ff_core::registry::Role;
use ff_server::access::{May, allows};
use serde_json::{Value, json};

use crate::stand::Stand;

const ID: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";

/// What each route needs. A route that is not here fails the test.
fn needs(method: &str, path: &str) -> Option<May> {
    use May::*;
    Some(match (method, path) {
        ("get", "/healthz" | "/readyz") => return None,
        ("get", "/v1/keys" | "/v1/tokens" | "/v1/webhooks" | "/v1/webhooks/{id}") => Administer,
        ("get", _) => Read,
        ("post", "/v1/executions" | "/v1/flows" | "/v1/flows/{id}/nodes" | "/v1/flows/{id}/edges") => Submit,
        ("post", "/v1/flows/{id}/seal") | ("put", "/v1/flows/{id}/nodes/{node}/policy") => Submit,
        ("post", "/v1/executions/{id}/signal" | "/v1/waitpoints/{id}/signal") => Submit,
        ("post", "/v1/workers" | "/v1/workers/{id}/claim" | "/v1/workers/{id}/heartbeat") => Work,
        ("post", path) if path.starts_with("/v1/tasks/") => Work,
        // Operators and workers may; a test of its own says so.
        ("post", "/v1/waitpoints/{id}/token") => return None,
        ("post", path) if path.starts_with("/v1/executions/{id}/") || path.starts_with("/v1/flows/{id}/") => {
            Operate
        }
        ("delete", "/v1/executions/{id}") | ("patch", "/v1/lanes/{lane}") => Operate,
        ("post", "/v1/dead-letters/{number}/repost") | ("delete", "/v1/dead-letters/{number}") => Operate,
        ("post", path) if path.starts_with("/v1/bulk/") => Operate,
        ("post" | "put" | "delete", path)
            if path.starts_with("/v1/tokens")
                || path.starts_with("/v1/keys")
                || path.starts_with("/v1/webhooks") =>
        {
            Administer
        }
        // Workers leave by themselves and operators send them away.
        ("post", "/v1/workers/{id}/drain") | ("delete", "/v1/workers/{id}") => return None,
        other => panic!("no rule for {other:?}"),
    })
}

fn routes() -> Vec<(String, String)> {
    let document: Value = ff_server::openapi();
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys().filter(|it| *it != "parameters");
        methods.map(|method| (method.clone(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

fn filled(path: &str) -> String {
    path.replace("/v1/waitpoints/{id}", &format!("/v1/waitpoints/{ID}-1"))
        .replace("{id}", ID)
        .replace("{node}", ID)
        .replace("{downstream}", ID)
        .replace("{number}", "7")
        .replace("{lane}", "default")
}

/// A body that can be read, whatever the route.
fn body(method: &str, path: &str) -> Option<Value> {
    let lease = json!({ "execution": ID, "attempt": 1, "epoch": 1 });
    Some(match (method, path) {
        ("get", _) => return None,
        ("delete", _) => json!({}),
        (_, "/v1/executions") => json!({ "kind": "a" }),
        (_, "/v1/workers") => json!({ "name": "a" }),
        (_, "/v1/workers/{id}/claim") => json!({ "name": "a" }),
        (_, "/v1/executions/{id}/priority") => json!({ "priority": 1 }),
        (_, "/v1/executions/{id}/signal") => json!({ "name": "a" }),
        (_, "/v1/flows/{id}/nodes/{node}/policy") => json!({ "join": { "policy": "all_of" } }),
        (_, "/v1/tasks/waitpoint") => json!({ "lease": lease, "waitpoint": {} }),
        (_, "/v1/tasks/child") => json!({ "lease": lease, "run": { "kind": "a" } }),
        (_, "/v1/tasks/expand") => json!({ "lease": lease }),
        (_, path) if path.starts_with("/v1/tasks/") => json!({ "tasks": [] }),
        (_, "/v1/tokens") => json!({ "name": "x", "role": "viewer" }),
        (_, path) if path.starts_with("/v1/webhooks") => json!({ "url": "https://example.org/" }),
        (_, "/v1/bulk/priority") => json!({ "filter": { "kind": "a" }, "priority": 1 }),
        (_, "/v1/bulk/cancel" | "/v1/bulk/replay") => json!({ "filter": { "kind": "a" } }),
        _ => json!({}),
    })
}

#[tokio::test]
async fn every_route_lets_in_exactly_the_roles_it_is_for() {
    let stand = Stand::guarded().await;
    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let bearer = format!("Bearer {}", stand.token(role, &[]).await);
        for (method, path) in routes() {
            let Some(may) = needs(&method, &path) else { continue };
            let verb = method.to_uppercase();
            let headers = [("authorization", bearer.as_str())];
            let answer = stand.send(&verb, &filled(&path), body(&method, &path), &headers).await;
            let refused = answer.status == 403;
            // Output is content, which is hidden from viewers unless their token says otherwise.
            let hidden = role == Role::Viewer && path.ends_with("/stream");
            assert_eq!(!refused, allows(role, may) && !hidden, "{role} {method} {path}: {}", answer.status);
            assert_ne!(answer.status, 401, "{role} {method} {path}");
            assert!(answer.status < 500, "{role} {method} {path}: {}", answer.json());
        }
    }
}

#[tokio::test]
async fn without_a_good_token_nothing_but_health_is_told() {
    let stand = Stand::guarded().await;
    let revoked = stand.token(Role::Admin, &[]).await;
    let id = stand.engine.tokens().await.unwrap()[0].id.clone();
    stand.engine.revoke_token(&id, "test", "").await.unwrap();
    let wrong = ["Bearer ffk_nonsense".to_owned(), format!("Bearer {revoked}"), "Basic abc".to_owned()];
    for (method, path) in routes() {
        if needs(&method, &path).is_none() && !path.starts_with("/v1") {
            assert!(stand.send("GET", &path, None, &[]).await.status == 200, "{path}");
            continue;
        }
        let verb = method.to_uppercase();
        let bare = stand.send(&verb, &filled(&path), body(&method, &path), &[]).await;
        assert_eq!(bare.problem(), (401, "unauthorized".into()), "{method} {path}");
        assert!(bare.head.to_lowercase().contains("www-authenticate: bearer"));
        for bearer in &wrong {
            let headers = [("authorization", bearer.as_str())];
            let answer = stand.send(&verb, &filled(&path), body(&method, &path), &headers).await;
            assert_eq!(answer.problem(), (401, "unauthorized".into()), "{method} {path} {bearer}");
        }
    }
}

#[tokio::test]
async fn what_belongs_to_another_namespace_is_not_there() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let submit = json!({ "kind": "a", "namespace": "theirs", "input": "secret" });
    let made =
        stand.send("POST", "/v1/executions", Some(submit.clone()), &[("authorization", &admin)]).await.good();
    let id = made["id"].as_str().unwrap().to_owned();
    let flow = json!({ "namespace": "theirs", "nodes": [{ "name": "n", "run": { "kind": "a" } }] });
    let made = stand.send("POST", "/v1/flows", Some(flow), &[("authorization", &admin)]).await.good();
    let flow = made["flow"]["id"].as_str().unwrap().to_owned();

    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let bearer = format!("Bearer {}", stand.token(role, &["ours"]).await);
        let headers = [("authorization", bearer.as_str())];
        for (method, path) in routes() {
            let Some(may) = needs(&method, &path).filter(|may| allows(role, *may)) else { continue };
            let verb = method.to_uppercase();
            let of_theirs = path.contains("/executions/{id}") || path.contains("/flows/{id}");
            if of_theirs {
                let target = if path.contains("/flows/{id}") { &flow } else { &id };
                let real = path.replace("{id}", target).replace("{node}", ID).replace("{downstream}", ID);
                let answer = stand.send(&verb, &real, body(&method, &path), &headers).await;
                assert_eq!(answer.status, 404, "{role} {may:?} {method} {path}: {}", answer.json());
                let none = stand.send(&verb, &filled(&path), body(&method, &path), &headers).await;
                assert_eq!(none.json()["code"], answer.json()["code"], "{method} {path} tells them apart");
            }
        }
        let list = stand.send("GET", "/v1/executions", None, &headers).await.good();
        assert_eq!(list["executions"], json!([]));
        let other = stand.send("GET", "/v1/executions?namespace=theirs", None, &headers).await;
        assert_eq!(other.status, 403);
        let counts = stand.send("GET", "/v1/executions/counts", None, &headers).await.good();
        assert_eq!(counts["counts"], json!([]));
        if allows(role, May::Submit) {
            let answer = stand.send("POST", "/v1/executions", Some(submit.clone()), &headers).await;
            assert_eq!(answer.problem(), (403, "forbidden".into()));
        }
        if allows(role, May::Work) {
            let worker =
                stand.send("POST", "/v1/workers", Some(json!({ "name": "w" })), &headers).await.good();
            let claim = format!("/v1/workers/{}/claim", worker["id"].as_str().unwrap());
            let claimed =
                stand.send("POST", &claim, Some(json!({ "name": "w", "max": 10 })), &headers).await.good();
            assert_eq!(claimed["tasks"], json!([]));
            let lease = json!({ "execution": id, "attempt": 1, "epoch": 1 });
            let done = json!({ "tasks": [{ "lease": lease }] });
            let done = stand.send("POST", "/v1/tasks/complete", Some(done), &headers).await.good();
            assert_eq!(done["outcomes"][0]["problem"]["code"], "not_found");
        }
    }
}

#[tokio::test]
async fn payloads_are_hidden_from_viewers() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let viewer = format!("Bearer {}", stand.token(Role::Viewer, &[]).await);
    let submit = json!({ "kind": "a", "input": "very secret" });
    let made = stand.send("POST", "/v1/executions", Some(submit), &[("authorization", &admin)]).await.good();
    let path = format!("/v1/executions/{}/input", made["id"].as_str().unwrap());
    let seen = stand.send("GET", &path, None, &[("authorization", &admin)]).await.good();
    assert_eq!(seen["input"], "very secret");
    for accept in ["application/json", "application/vnd.flowfabric.record+json"] {
        let headers = [("authorization", viewer.as_str()), ("accept", accept)];
        let hidden = stand.send("GET", &path, None, &headers).await;
        assert!(!String::from_utf8_lossy(&hidden.body).contains("secret"));
        assert_eq!(hidden.status, 200);
    }
}

#[tokio::test]
async fn what_is_done_with_a_token_is_written_down_under_its_name() {
    let stand = Stand::guarded().await;
    let operator = format!("Bearer {}", stand.token(Role::Operator, &[]).await);
    let headers = [("authorization", operator.as_str())];
    let made = stand.send("POST", "/v1/executions", Some(json!({ "kind": "a" })), &headers).await.good();
    let id = made["id"].as_str().unwrap();
    let hold = json!({ "actor": "ada", "cause": "why not" });
    let held = stand.send("POST", &format!("/v1/executions/{id}/hold"), Some(hold), &headers).await.good();
    assert_eq!(held["held"]["actor"], "operator-token/ada");
}

#[tokio::test]
async fn pages_of_other_sites_get_no_answer() {
    let stand = Stand::new().await;
    let send = async |headers: &[(&str, &str)]| {
        let mut head = "GET /v1/executions HTTP/1.1\r\nconnection: close\r\n".to_owned();
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        stand.raw(format!("{head}\r\n").as_bytes()).await
    };
    assert_eq!(send(&[("host", "localhost:7400")]).await.status, 200);
    assert_eq!(send(&[("host", "localhost:7400"), ("origin", "http://localhost:7400")]).await.status, 200);
    let elsewhere = send(&[("host", "evil.example")]).await;
    assert_eq!(elsewhere.problem(), (403, "other_site".into()));
    let from = send(&[("host", "localhost:7400"), ("origin", "http://evil.example")]).await;
    assert_eq!(from.problem(), (403, "other_site".into()));
}
