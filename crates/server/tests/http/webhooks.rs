//! Webhooks as administrators see them.

use ff_core::suspension::token::Secret;
use serde_json::json;

use crate::stand::Stand;

#[tokio::test]
async fn of_many_that_make_a_webhook_at_once_one_gets_the_secret_that_counts() {
    let stand = Stand::new().await;
    for round in 0..10 {
        let path = format!("/v1/webhooks/hook-{round}");
        let make = |n: usize| {
            let body = json!({ "url": format!("https://example.org/{n}") });
            let (stand, path) = (&stand, &path);
            async move { stand.send("PUT", path, Some(body), &[]).await.good() }
        };
        let answers = tokio::join!(make(0), make(1), make(2), make(3));
        let answers = [answers.0, answers.1, answers.2, answers.3];
        let secrets: Vec<&str> = answers.iter().filter_map(|it| it["secret"].as_str()).collect();
        let [secret] = secrets[..] else { panic!("{} secrets are handed out", secrets.len()) };
        let stored = stand.engine.webhook(&format!("hook-{round}")).await.unwrap().unwrap();
        assert!(String::from(stored.secret) == secret, "and it is in force");
    }
}

#[tokio::test]
async fn a_change_keeps_the_secret_unless_a_new_one_is_asked_for() {
    let stand = Stand::new().await;
    let put = async |body| stand.send("PUT", "/v1/webhooks/hook", Some(body), &[]).await.good();
    let url = "https://example.org/";
    let first = put(json!({ "url": url })).await;
    assert!(first["secret"].is_string());
    assert_eq!(put(json!({ "url": url, "paused": true })).await["secret"], json!(null));
    let second = put(json!({ "url": url, "new_secret": true })).await;
    assert!(second["secret"].is_string() && second["secret"] != first["secret"]);
    let stored: Secret = stand.engine.webhook("hook").await.unwrap().unwrap().secret;
    assert!(json!(String::from(stored)) == second["secret"]);
}
