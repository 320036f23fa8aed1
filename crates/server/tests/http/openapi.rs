//! The OpenAPI document: what is served is what is committed.

use std::collections::BTreeMap;
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

#[test]
fn every_operation_has_an_id_of_its_own_that_begins_with_its_tag() {
    let document: Value = ff_server::openapi();
    let mut seen = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let route = format!("{method} {path}");
            let [Value::String(tag)] = operation["tags"].as_array().unwrap().as_slice() else {
                panic!("{route} has not one tag");
            };
            let Some(id) = operation["operationId"].as_str() else { panic!("{route} has no id") };
            let name = id.strip_prefix(tag.as_str()).and_then(|it| it.strip_prefix('_'));
            assert!(name.is_some_and(|it| !it.is_empty()), "{route} is {id}, which is not {tag} and a name");
            let is_snake_case = id.split('_').all(|word| {
                word.starts_with(|it: char| it.is_ascii_lowercase())
                    && word.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
            });
            assert!(is_snake_case, "{route} is {id}, of which not every language can make a name");
            if let Some(other) = seen.insert(id.to_owned(), route.clone()) {
                panic!("{other} and {route} are both {id}");
            }
        }
    }
}
