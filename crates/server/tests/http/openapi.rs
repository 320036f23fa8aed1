//! The OpenAPI document: what is served is what is committed.

use std::path::Path;

use serde_json::Value;

use crate::stand::Stand;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json")
}

#[tokio::test]
async fn the_served_document_is_the_committed_one() {
    let served: Value = Stand::new().await.get("/openapi.json").await.good();
    let text = format!("{served:#}\n");
    let path = golden();
    if std::env::var_os("FLOWFABRIC_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "the routes have changed; run FLOWFABRIC_BLESS=1 cargo nextest run -p ff-server the_served_document \
         and commit crates/server/openapi.json"
    );
}

#[test]
fn every_operation_is_described_and_says_what_it_answers() {
    let document: Value = ff_server::openapi();
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            count += 1;
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{method} {path}");
            assert!(
                answers.len() > 1 || path == "/healthz" || path == "/metrics",
                "{method} {path} never fails"
            );
        }
    }
    assert!(count > 60, "{count} operations");
}
