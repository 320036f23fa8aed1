//! What does not fit is named, nothing is stored, and nothing breaks.

use serde_json::{Value, json};

use crate::stand::Stand;

#[tokio::test]
async fn bad_documents_name_the_field_and_store_nothing() {
    let stand = Stand::new().await;
    let cases = [
        (json!({}), "kind"),
        (json!({ "kind": "" }), "kind"),
        (json!({ "kind": 7 }), "kind"),
        (json!({ "kind": "a", "lane": "x".repeat(100) }), "lane"),
        (json!({ "kind": "a", "priority": 101 }), "priority"),
        (json!({ "kind": "a", "policy": { "max_attempts": 0 } }), "policy.max_attempts"),
        (json!({ "kind": "a", "policy": { "lease_ms": "x" } }), "policy.lease_ms"),
        (json!({ "kind": "a", "delay_ms": "soon" }), "delay_ms"),
        (json!({ "kind": "a", "start_at": "tomorrow" }), "start_at"),
        (json!({ "kind": "a", "tags": { "No": "x" } }), "tags"),
        (json!({ "kind": "a", "id": "banana" }), "id"),
        (json!({ "kind": "a", "input_encoded": { "content_type": "x", "base64": "*" } }), "input"),
        (json!({ "kind": "a\u{0}b" }), "kind"),
        (json!([]), "body"),
    ];
    for (body, field) in cases {
        let answer = stand.post("/v1/executions", body.clone()).await;
        assert_eq!(answer.problem(), (400, "invalid".into()), "{body}");
        let named = answer.json()["fields"][0]["field"].as_str().unwrap().to_owned();
        assert!(named == field || (field == "kind" && named == "body"), "{body}: {named}");
        assert!(answer.json()["detail"].as_str().unwrap().len() > 10);
    }
    let unknown = stand.post("/v1/executions", json!({ "kind": "a", "colour": "red" })).await;
    assert!(unknown.json()["detail"].as_str().unwrap().contains("colour"));
    assert_eq!(stand.get("/v1/executions/count").await.good()["count"], 0);
}

#[tokio::test]
async fn bad_queries_and_paths_are_refused() {
    let stand = Stand::new().await;
    for path in [
        "/v1/executions?limit=0",
        "/v1/executions?limit=many",
        "/v1/executions?colour=red",
        "/v1/executions?state=bored",
        "/v1/executions?cursor=here",
        "/v1/executions?tag=novalue",
        "/v1/executions?created_from=soon",
        "/v1/executions?order=random",
        "/v1/executions/banana",
        "/v1/executions/banana/result",
        "/v1/flows/banana",
        "/v1/events?cursor=c9.zz",
        "/v1/events?start=soon",
        "/v1/events?family=royal",
        "/v1/waitpoints?execution=banana",
    ] {
        assert_eq!(stand.get(path).await.status, 400, "{path}");
    }
    assert_eq!(stand.get("/v1/nothing").await.problem(), (404, "no_route".into()));
    assert_eq!(
        stand.send("PUT", "/v1/executions", Some(json!({})), &[]).await.problem(),
        (405, "other_method".into())
    );
    let missing = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";
    for path in ["", "/input", "/result", "/attempts", "/explain", "/steps", "/events", "/stream", "/signals"]
    {
        let answer = stand.get(&format!("/v1/executions/{missing}{path}")).await;
        assert_eq!(answer.problem(), (404, "not_found".into()), "{path}");
    }
}

#[tokio::test]
async fn bodies_that_are_too_large_too_deep_or_no_json_are_refused() {
    let config = ff_server::Config { body_bytes_max: 10_000, ..Default::default() };
    let stand = Stand::with(config).await;
    let large = stand.post("/v1/executions", json!({ "kind": "a", "input": "x".repeat(20_000) })).await;
    assert_eq!(large.problem(), (413, "too_large".into()));
    let mut deep = Value::Null;
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let deep = stand.post("/v1/executions", json!({ "kind": "a", "input": deep })).await;
    assert_eq!(deep.problem(), (400, "invalid".into()));
    let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let form = stand
        .raw(
            format!("{head}content-type: text/plain\r\ncontent-length: 12\r\n\r\n{{\"kind\":\"a\"}}")
                .as_bytes(),
        )
        .await;
    assert_eq!(form.problem(), (415, "not_json".into()));
    let broken = stand
        .raw(
            format!("{head}content-type: application/json\r\ncontent-length: 9\r\n\r\n{{\"kind\":\"")
                .as_bytes(),
        )
        .await;
    assert_eq!(broken.problem(), (400, "invalid".into()));
    // More than was announced in chunks counts, too.
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 20_000, "x".repeat(20_000));
    let chunked = stand
        .raw(
            format!("{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunk}")
                .as_bytes(),
        )
        .await;
    assert_eq!(chunked.status, 413);
    assert_eq!(stand.get("/v1/executions/count").await.good()["count"], 0);
}

#[tokio::test]
async fn a_page_of_events_looks_at_so_many_and_says_where_to_go_on() {
    let stand = Stand::with(ff_server::Config { event_looks_max: 1, ..Default::default() }).await;
    let many: Vec<_> = (0..600).map(|_| json!({ "kind": "a" })).collect();
    stand.post("/v1/executions", json!({ "executions": many })).await.good();
    let mut cursors = Vec::new();
    let mut ask = "start=beginning".to_owned();
    for _ in 0..3 {
        let page = stand.get(&format!("/v1/events?{ask}&family=lease")).await.good();
        assert_eq!(page["events"], json!([]));
        let cursor = page["next_cursor"].as_str().unwrap().to_owned();
        ask = format!("cursor={cursor}");
        cursors.push(cursor);
    }
    assert_ne!(cursors[0], cursors[1], "a page read on where the one before had stopped");
    assert_eq!(cursors[1], cursors[2], "there is no more");
}

#[tokio::test]
async fn a_page_of_records_looks_at_so_many_whatever_is_asked_and_says_where_to_go_on() {
    /// The most that one page looks at.
    const LOOKS_MAX: usize = 10_000;
    let stand = Stand::new().await;
    // Its id is of a time long before all others.
    let sought = json!({ "kind": "sought", "id": "0197f3a2-6f3e-7c41-9b1d-0242ac120002" });
    let sought = stand.submit(sought).await;
    for _ in 0..LOOKS_MAX / 1_000 {
        let many: Vec<_> = (0..1_000).map(|_| json!({ "kind": "a" })).collect();
        stand.post("/v1/executions", json!({ "executions": many })).await.good();
    }
    let page = async |query: String| {
        let page = stand.get(&format!("/v1/executions?kind=sought&{query}")).await.good();
        let found = page["executions"].as_array().unwrap().iter().map(|it| it["id"].clone());
        (found.collect::<Vec<_>>(), page["next_cursor"].as_str().map(str::to_owned))
    };
    // The one that is sought is the oldest, right behind all that a page may look at.
    for scan in ["scan=1000000", "limit=1"] {
        let (found, next) = page(scan.to_owned()).await;
        assert_eq!(found, [json!(null); 0], "{scan}");
        let (found, _) = page(format!("{scan}&cursor={}", next.expect("where to go on"))).await;
        assert_eq!(found, [json!(sought)], "{scan}");
    }
    let (found, next) = page("scan=3".to_owned()).await;
    assert_eq!((found, next.is_some()), (vec![], true));
}
