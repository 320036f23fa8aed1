//! Suspensions, waitpoints and their tokens over HTTP.

use ff_core::registry::Role;
use serde_json::{Value, json};

use crate::stand::Stand;

/// An execution that waits for `approved`, and the token of its waitpoint.
pub async fn waiting(stand: &Stand) -> (String, Value) {
    let id = stand.submit(json!({ "kind": "deploy" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let open = json!({ "lease": task["lease"], "waitpoint": { "name": "approved" } });
    let opened = stand.post("/v1/tasks/waitpoint", open).await.good();
    let suspend = json!({ "tasks": [{
        "lease": task["lease"], "condition": { "signal": { "name": "approved" } }, "reason": "waiting_for_approval",
    }] });
    let suspended = stand.post("/v1/tasks/suspend", suspend).await.good();
    assert_eq!(suspended["outcomes"][0]["answer"]["outcome"], "suspended");
    (id, opened)
}

#[tokio::test]
async fn a_token_opens_its_own_waitpoint_and_no_other() {
    let stand = Stand::new().await;
    let ((id, one), (_, two)) = (waiting(&stand).await, waiting(&stand).await);
    let path = |opened: &Value| format!("/v1/waitpoints/{}/signal", opened["waitpoint"].as_str().unwrap());
    let send = async |path: String, token: &str| {
        let bearer = format!("Bearer {token}");
        stand.send("POST", &path, Some(json!({ "payload": true })), &[("authorization", &bearer)]).await
    };
    let (first, second) = (one["token"].as_str().unwrap(), two["token"].as_str().unwrap());
    let mut forged = first.to_owned();
    let last = forged.pop().unwrap();
    forged.push(if last == '0' { '1' } else { '0' });
    for (path, token) in
        [(path(&one), second), (path(&two), first), (path(&one), forged.as_str()), (path(&one), "v1.1.x.y")]
    {
        assert_eq!(send(path, token).await.problem(), (403, "token_refused".into()));
    }
    assert_eq!(send(path(&one), first).await.good()["effect"], "satisfied");
    let found = stand.get(&format!("/v1/executions/{id}")).await.good();
    assert_eq!(found["state"], "waiting");
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    assert_eq!((&task["resumed_by"], &task["signals"][0]["payload"]), (&json!("signals"), &json!(true)));
}

#[tokio::test]
async fn open_waitpoints_are_listed_without_their_tokens() {
    let stand = Stand::new().await;
    let (id, opened) = waiting(&stand).await;
    let listed = stand.get("/v1/waitpoints?name=approved").await.good();
    assert_eq!(listed["waitpoints"][0]["execution"], json!(id));
    let mac = opened["token"].as_str().unwrap().rsplit('.').next().unwrap().to_owned();
    for path in ["/v1/waitpoints", "/v1/events?start=beginning&limit=1000", &format!("/v1/executions/{id}")] {
        let answer = stand.get(path).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains(&mac), "{path}");
    }
}

#[tokio::test]
async fn the_holder_of_an_access_token_signals_under_its_own_name() {
    let stand = Stand::guarded().await;
    let admin = format!("Bearer {}", stand.token(Role::Admin, &[]).await);
    let headers = [("authorization", admin.as_str())];
    let made = stand.send("POST", "/v1/executions", Some(json!({ "kind": "a" })), &headers).await.good();
    let path = format!("/v1/executions/{}/signal", made["id"].as_str().unwrap());
    let signal = json!({ "name": "approved", "source": "the-boss" });
    stand.send("POST", &path, Some(signal), &headers).await.good();
    let kept = stand.send("GET", &format!("{path}s"), None, &headers).await.good();
    assert_eq!(kept["signals"][0]["source"], "admin-token/the-boss");
}

#[tokio::test]
async fn workers_make_the_token_of_their_waitpoints_again_and_of_no_others() {
    let stand = Stand::guarded().await;
    let [admin, worker, other, viewer] = [
        stand.token(Role::Admin, &[]).await,
        stand.token(Role::Worker, &["ours"]).await,
        stand.token(Role::Worker, &["theirs"]).await,
        stand.token(Role::Viewer, &[]).await,
    ]
    .map(|secret| format!("Bearer {secret}"));
    let send = async |bearer: &str, path: &str, body: Value| {
        stand.send("POST", path, Some(body), &[("authorization", bearer)]).await
    };
    send(&admin, "/v1/executions", json!({ "kind": "deploy", "namespace": "ours" })).await.good();
    let registered = send(&worker, "/v1/workers", json!({ "name": "w" })).await.good();
    let claim = format!("/v1/workers/{}/claim", registered["id"].as_str().unwrap());
    let claimed = send(&worker, &claim, json!({ "name": "w", "wait_ms": 5_000 })).await.good();
    let open = json!({ "lease": claimed["tasks"][0]["lease"], "waitpoint": { "name": "approved" } });
    let opened = send(&worker, "/v1/tasks/waitpoint", open).await.good();
    let path = format!("/v1/waitpoints/{}/token", opened["waitpoint"].as_str().unwrap());
    let again = send(&worker, &path, json!({ "actor": "ann", "cause": "the mail was lost" })).await.good();
    assert_eq!(again["token"], opened["token"]);
    let events = "/v1/events?start=beginning&family=signal&namespace=ours";
    let told = stand.send("GET", events, None, &[("authorization", &admin)]).await.good();
    let last = told["events"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["event"], &last["fact"]["waitpoint"]), (&json!("waitpoint_token_issued"), &json!(1)));
    assert_eq!(last["fact"]["by"], json!({ "actor": "worker-token/ann", "cause": "the mail was lost" }));
    assert_eq!(send(&other, &path, json!({})).await.problem(), (404, "not_found".into()));
    assert_eq!(send(&viewer, &path, json!({})).await.problem(), (403, "forbidden".into()));
}

#[tokio::test]
async fn one_token_neither_approves_twice_nor_its_own_request() {
    let stand = Stand::guarded().await;
    let [admin, operator] =
        [stand.token(Role::Admin, &[]).await, stand.token(Role::Operator, &[]).await].map(bearing);
    let send = async |bearer: &str, path: &str, body: Value| {
        stand.send("POST", path, Some(body), &[("authorization", bearer)]).await
    };
    send(&admin, "/v1/executions", json!({ "kind": "deploy" })).await.good();
    let registered = send(&admin, "/v1/workers", json!({ "name": "w" })).await.good();
    let claim = format!("/v1/workers/{}/claim", registered["id"].as_str().unwrap());
    let claimed = send(&admin, &claim, json!({ "name": "w", "wait_ms": 5_000 })).await.good();
    let open = async |waitpoint: Value| {
        let open = json!({ "lease": claimed["tasks"][0]["lease"], "waitpoint": waitpoint });
        let opened = send(&admin, "/v1/tasks/waitpoint", open).await.good();
        (format!("/v1/waitpoints/{}/signal", opened["waitpoint"].as_str().unwrap()), opened["token"].clone())
    };
    let (board, token) = open(json!({ "name": "board", "distinct_sources": true })).await;
    let (release, _) = open(json!({ "name": "release", "requester": "operator-token" })).await;
    for (bearer, path, body, then) in [
        (&admin, &board, json!({ "source": "ann" }), json!("buffered")),
        (&admin, &board, json!({ "source": "bob" }), json!("same_source")),
        (&admin, &board, json!({ "source": "bob", "token": token }), json!("same_source")),
        (&operator, &board, json!({ "source": "ann" }), json!("buffered")),
        (&operator, &release, json!({}), json!("own_request")),
        (&operator, &release, json!({ "source": "x" }), json!("own_request")),
        (&admin, &release, json!({ "source": "x" }), json!("buffered")),
    ] {
        let told = send(bearer, path, body).await.good();
        assert!(told["effect"] == then || told["why"] == then, "{told} instead of {then}");
    }
    // Whoever may signal may ask for the token of a waitpoint and say with it what it likes, unless that is not enough.
    let (board, token) =
        open(json!({ "name": "council", "distinct_sources": true, "known_sources": true })).await;
    for (shown, source, then) in [
        (None, "ann", json!("no_source")),
        (Some(&operator), "ann", json!("buffered")),
        (Some(&operator), "bob", json!("same_source")),
        (None, "bob", json!("no_source")),
        (Some(&admin), "bob", json!("buffered")),
    ] {
        let headers: Vec<_> = shown.iter().map(|it| ("authorization", it.as_str())).collect();
        let body = json!({ "source": source, "token": token });
        let told = stand.send("POST", &board, Some(body), &headers).await.good();
        assert!(told["effect"] == then || told["why"] == then, "{told} instead of {then}");
    }
    let events = "/v1/events?start=beginning&family=signal";
    let told = stand.send("GET", events, None, &[("authorization", &admin)]).await.good();
    let first =
        told["events"].as_array().unwrap().iter().find(|it| it["event"] == "signal_received").unwrap();
    let fact = &first["fact"];
    assert_eq!((&fact["principal"], &fact["via"]), (&json!("admin-token"), &json!("access")));
    let wrong = send("Bearer ffk_wrong", &board, json!({ "token": token })).await;
    assert_eq!(wrong.problem(), (401, "unauthorized".into()), "what is shown is looked at");
}

fn bearing(secret: String) -> String {
    format!("Bearer {secret}")
}
