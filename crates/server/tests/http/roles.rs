//! Every route, every role, and namespaces that are not one's own.

use ff_core::registry::Role;
use ff_server::access::{May, allows};
use serde_json::{Value, json};

use crate::stand::Stand;

const ID: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";

/// What everybody with a token may read.
const READ: [&str; 36] = [
    "/metrics",
    "/v1/bulk",
    "/v1/bulk/{id}",
    "/v1/dead-letters",
    "/v1/dead-letters/{number}",
    "/v1/events",
    "/v1/executions",
    "/v1/executions/count",
    "/v1/executions/counts",
    "/v1/executions/{id}",
    "/v1/executions/{id}/attempts",
    "/v1/executions/{id}/edges",
    "/v1/executions/{id}/edges/{downstream}",
    "/v1/executions/{id}/events",
    "/v1/executions/{id}/explain",
    "/v1/executions/{id}/input",
    "/v1/executions/{id}/result",
    "/v1/executions/{id}/signals",
    "/v1/executions/{id}/steps",
    "/v1/executions/{id}/stream",
    "/v1/flows",
    "/v1/flows/{id}",
    "/v1/flows/{id}/graph",
    "/v1/flows/{id}/members",
    "/v1/flows/{id}/result",
    "/v1/info",
    "/v1/lanes",
    "/v1/lanes/{lane}",
    "/v1/limits",
    "/v1/namespaces",
    "/v1/namespaces/{namespace}",
    "/v1/stats",
    "/v1/waitpoints",
    "/v1/waitpoints/{id}",
    "/v1/workers",
    "/v1/workers/{id}",
];

/// What each route needs. A route that is not here fails the test.
pub fn needs(method: &str, path: &str) -> Option<May> {
    use May::*;
    Some(match (method, path) {
        ("get", "/healthz" | "/readyz") => return None,
        ("get", "/v1/keys" | "/v1/tokens" | "/v1/tokens/{id}" | "/v1/webhooks" | "/v1/webhooks/{id}") => {
            Administer
        }
        ("get", path) if READ.contains(&path) => Read,
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

pub fn routes() -> Vec<(String, String)> {
    let document: Value = ff_server::openapi();
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys().filter(|it| *it != "parameters");
        methods.map(|method| (method.clone(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

pub fn filled(path: &str) -> String {
    path.replace("/v1/waitpoints/{id}", &format!("/v1/waitpoints/{ID}-1"))
        .replace("{id}", ID)
        .replace("{node}", ID)
        .replace("{downstream}", ID)
        .replace("{number}", "7")
        .replace("{lane}", "default")
        .replace("{namespace}", "default")
}

/// A body that can be read, whatever the route.
pub fn body(method: &str, path: &str) -> Option<Value> {
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
async fn who_is_limited_to_namespaces_touches_its_own_workers_only() {
    let stand = Stand::guarded().await;
    let register = async |bearer: &str| {
        let headers = [("authorization", bearer)];
        let made = stand.send("POST", "/v1/workers", Some(json!({ "name": "w" })), &headers).await.good();
        made["id"].as_str().unwrap().to_owned()
    };
    let of_all = format!("Bearer {}", stand.token(Role::Worker, &[]).await);
    let theirs = format!("Bearer {}", stand.token(Role::Worker, &["theirs"]).await);
    let (first, second) = (register(&of_all).await, register(&theirs).await);
    let calls = |id: &str| {
        [
            ("POST", "/v1/workers".to_owned(), json!({ "id": id, "name": "w" })),
            ("GET", format!("/v1/workers/{id}"), json!({})),
            ("POST", format!("/v1/workers/{id}/claim"), json!({ "name": "w", "poll": 1 })),
            ("POST", format!("/v1/workers/{id}/heartbeat"), json!({})),
            ("POST", format!("/v1/workers/{id}/drain"), json!({})),
            ("DELETE", format!("/v1/workers/{id}"), json!({})),
        ]
    };
    let listed = async |bearer: &str| {
        let list = stand.send("GET", "/v1/workers", None, &[("authorization", bearer)]).await.good();
        list["workers"].as_array().unwrap().iter().map(|it| it["mode"].clone()).collect::<Vec<_>>()
    };
    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let ours = format!("Bearer {}", stand.token(role, &["ours"]).await);
        for (method, path, body) in calls(&first).into_iter().chain(calls(&second)) {
            let answer = stand.send(method, &path, Some(body), &[("authorization", &ours)]).await;
            // Whoever may not do it anywhere hears so before anything is looked for.
            let works = ["/claim", "/heartbeat", "/workers"].iter().any(|it| path.ends_with(it));
            let may = match method {
                "GET" => true,
                _ if works => allows(role, May::Work),
                _ => allows(role, May::Work) || allows(role, May::Operate),
            };
            let expected = if may { (404, "not_found") } else { (403, "forbidden") };
            let (status, code) = answer.problem();
            assert_eq!((status, code.as_str()), expected, "{role} {method} {path}");
        }
        assert_eq!(listed(&ours).await, Vec::<Value>::new(), "{role}");
    }
    assert_eq!(listed(&theirs).await, [json!("active")], "nobody has touched it");
    assert_eq!(listed(&of_all).await.len(), 2);
    for (method, path, body) in calls(&second) {
        let answer = stand.send(method, &path, Some(body), &[("authorization", &theirs)]).await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.json());
    }
}

#[tokio::test]
async fn workers_and_operators_send_workers_away_and_viewers_do_not() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    for role in [Role::Viewer, Role::Worker, Role::Operator, Role::Admin] {
        let bearer = format!("Bearer {}", stand.token(role, &[]).await);
        let name = Some(json!({ "name": "w" }));
        let made = stand.send("POST", "/v1/workers", name, &[("authorization", &admin)]).await.good();
        let path = format!("/v1/workers/{}", made["id"].as_str().unwrap());
        for (method, path) in [("POST", format!("{path}/drain")), ("DELETE", path)] {
            let answer = stand.send(method, &path, Some(json!({})), &[("authorization", &bearer)]).await;
            let expected = if role == Role::Viewer { 403 } else { 200 };
            assert_eq!(answer.status, expected, "{role} {method}");
        }
    }
}

#[tokio::test]
async fn a_token_that_has_expired_is_not_good() {
    let stand = Stand::guarded().await;
    let new = ff_engine::registry::NewToken {
        name: "short".into(),
        role: Role::Admin,
        namespaces: vec![],
        see_payloads: true,
        expires_in_ms: Some(5_000),
        actor: "test".into(),
        cause: "".into(),
    };
    let bearer = format!("Bearer {}", stand.engine.create_token(new).await.unwrap().1.reveal());
    let ask = async || stand.send("GET", "/v1/lanes", None, &[("authorization", &bearer)]).await;
    assert_eq!(ask().await.status, 200);
    let started = std::time::Instant::now();
    while ask().await.status == 200 {
        assert!(started.elapsed().as_secs() < 30, "it is still good");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(ask().await.problem(), (401, "unauthorized".into()));
}

#[tokio::test]
async fn payloads_are_hidden_from_viewers_unless_their_token_says_otherwise() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let viewer = format!("Bearer {}", stand.token(Role::Viewer, &[]).await);
    let new = ff_engine::registry::NewToken {
        name: "seer".into(),
        role: Role::Viewer,
        namespaces: vec![],
        see_payloads: true,
        expires_in_ms: None,
        actor: "test".into(),
        cause: "".into(),
    };
    let seer = format!("Bearer {}", stand.engine.create_token(new).await.unwrap().1.reveal());
    let send = async |path: &str, body: Value| {
        stand.send("POST", path, Some(body), &[("authorization", &admin)]).await.good()
    };
    let run = json!({ "kind": "a", "input": "secret input" });
    let made = send("/v1/flows", json!({ "sealed": true, "nodes": [{ "name": "n", "run": run }] })).await;
    let (flow, id) = (made["flow"]["id"].as_str().unwrap(), made["nodes"]["n"].as_str().unwrap());
    send(&format!("/v1/executions/{id}/signal"), json!({ "name": "go", "payload": "secret signal" })).await;
    let worker = send("/v1/workers", json!({ "name": "w" })).await;
    let claim = format!("/v1/workers/{}/claim", worker["id"].as_str().unwrap());
    let task = send(&claim, json!({ "name": "w", "wait_ms": 5_000 })).await["tasks"][0].clone();
    let step = json!({ "step": { "name": "s", "number": 1 }, "result": "secret step" });
    send("/v1/tasks/steps", json!({ "tasks": [{ "lease": task["lease"], "steps": [step] }] })).await;
    let frame = json!({ "kind": "text", "text": "secret output" });
    let append = json!({ "tasks": [{ "lease": task["lease"], "first": 1, "frames": [frame] }] });
    send("/v1/tasks/frames", append).await;
    let done = json!({ "tasks": [{ "lease": task["lease"], "result": "secret result" }] });
    send("/v1/tasks/complete", done).await;

    let paths = [
        format!("/v1/executions/{id}/input"),
        format!("/v1/executions/{id}/result"),
        format!("/v1/executions/{id}/signals"),
        format!("/v1/executions/{id}/steps"),
        format!("/v1/executions/{id}/stream"),
        format!("/v1/flows/{flow}/result"),
    ];
    for path in &paths {
        for accept in ["application/json", "application/vnd.flowfabric.record+json"] {
            let ask = async |bearer: &str| {
                let headers = [("authorization", bearer), ("accept", accept)];
                let answer = stand.send("GET", path, None, &headers).await;
                (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
            };
            let (status, text) = ask(&viewer).await;
            let refused = path.ends_with("/stream");
            assert_eq!(status, if refused { 403 } else { 200 }, "{path} {text}");
            assert!(!text.contains("secret"), "{path} {accept}: {text}");
            for bearer in [&admin, &seer] {
                let (status, text) = ask(bearer).await;
                // Bytes of records are not text.
                let shown = text.contains("secret") || accept.contains("record");
                assert!(status == 200 && shown, "{path} {accept}: {status} {text}");
            }
        }
    }
    let records = [
        (format!("/v1/executions/{id}"), "/execution/spec/digest"),
        ("/v1/executions".to_owned(), "/executions/0/spec/digest"),
        (format!("/v1/executions/{id}/result"), "/execution/spec/digest"),
        (format!("/v1/flows/{flow}"), "/flow/spec/digest"),
        ("/v1/flows".to_owned(), "/flows/0/spec/digest"),
        (format!("/v1/flows/{flow}/members"), "/flow/spec/digest"),
        (format!("/v1/flows/{flow}/members"), "/members/0/spec/digest"),
        (format!("/v1/flows/{flow}/graph"), "/flow/spec/digest"),
        (format!("/v1/flows/{flow}/graph"), "/members/0/spec/digest"),
    ];
    for (path, place) in records {
        for (bearer, hidden) in [(&viewer, true), (&seer, false), (&admin, false)] {
            let headers =
                [("authorization", bearer.as_str()), ("accept", "application/vnd.flowfabric.record+json")];
            let record = stand.send("GET", &path, None, &headers).await.good();
            let digest = record.pointer(place).unwrap_or_else(|| panic!("{path} {place}: {record}"));
            assert_eq!(*digest == 0, hidden, "{path} {place}");
        }
    }
    for path in [format!("/v1/executions/{id}"), "/v1/events?start=beginning&limit=1000".to_owned()] {
        let answer = stand.send("GET", &path, None, &[("authorization", &viewer)]).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{path}");
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
    assert!(elsewhere.head.to_lowercase().contains("x-request-id: "), "{}", elsewhere.head);
    let from = send(&[("host", "localhost:7400"), ("origin", "http://evil.example")]).await;
    assert_eq!(from.problem(), (403, "other_site".into()));
}

#[tokio::test]
async fn what_a_browser_fetches_for_another_site_gets_no_answer_without_an_origin_either() {
    let stand = Stand::new().await;
    let get = async |path: &str, site: &str| stand.send("GET", path, None, &[("sec-fetch-site", site)]).await;
    for site in ["cross-site", "same-site"] {
        assert_eq!(get("/v1/executions", site).await.problem(), (403, "other_site".into()), "{site}");
        let page = get("/w/v1.1.x.y", site).await;
        assert!(
            !String::from_utf8_lossy(&page.body).contains("other_site"),
            "links lead to the page: {site}"
        );
    }
    for site in ["same-origin", "none"] {
        assert_eq!(get("/v1/executions", site).await.status, 200, "{site}");
    }
}

#[tokio::test]
async fn what_comes_from_another_site_counts_for_its_sender() {
    let stand = Stand::with(ff_server::Config { requests_per_second: 1, ..Default::default() }).await;
    let mut told = Vec::new();
    for _ in 0..30 {
        let headers = [("origin", "http://evil.example")];
        told.push(stand.send("GET", "/v1/executions", None, &headers).await.problem().1);
    }
    assert_eq!(told[0], "other_site");
    assert!(told.iter().filter(|it| *it == "rate_limited").count() > 10, "{told:?}");
}
