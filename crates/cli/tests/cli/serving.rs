//! `flowfabric serve` and the tokens of its callers.

use serde_json::Value;

use crate::stand::{Said, Stand};

/// Runs a command against a server, with a token or without.
fn at(stand: &Stand, server: &str, token: Option<&str>, args: &[&str]) -> Said {
    let mut command = stand.command(args.iter().copied().chain(["--server", server]));
    if let Some(token) = token {
        command.env("FLOWFABRIC_TOKEN", token);
    }
    command.output().unwrap().into()
}

#[test]
fn a_server_answers_and_ends_when_it_is_asked_to() {
    let stand = Stand::new();
    let server = stand.serve([]);
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    let id = at(&stand, &server.url, None, &["submit", "x"]);
    assert_eq!(id.code, 0, "{id:?}");
    assert_eq!(at(&stand, &server.url, None, &["get", &id.out]).code, 0);
    let url = server.url.clone();
    let said = server.process.terminate();
    assert_eq!(said.code, 0, "{said:?}");
    let gone = at(&stand, &url, None, &["list", "--patience", "0"]);
    assert_eq!(gone.code, 5, "{gone:?}");
    assert!(gone.err.contains("flowfabric serve"), "{gone:?}");
    // What it has stored is in its file.
    assert_eq!(stand.json(["get", &id.out])["kind"], "x");
}

#[test]
fn other_addresses_without_tokens_or_encryption_are_refused_with_the_reason() {
    let stand = Stand::new();
    for (args, want) in [
        (&["--listen", "0.0.0.0:0"][..], "turn authentication on (--auth)"),
        (&["--listen", "[::]:0"], "turn authentication on (--auth)"),
        (&["--listen", "0.0.0.0:0", "--auth"], "--tls-cert"),
        (&["--listen", "nowhere"], "allowed are a host and a port"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"], "--tls-key"),
    ] {
        let said = stand.run(["serve"].into_iter().chain(args.iter().copied()));
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains(want), "{args:?}: {said:?}");
    }
    assert!(!stand.path("flowfabric.db").exists(), "nothing is made before it is clear that it may start");
    let said = stand.run(["serve", "--server", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 2, "{said:?}");
}

#[test]
fn the_first_token_is_shown_once_and_makes_more_which_can_be_revoked() {
    let stand = Stand::new();
    let server = stand.serve(["--auth"]);
    let admin = server.token.clone().expect("the first start shows a token");
    let at = |token: Option<&str>, args: &[&str]| at(&stand, &server.url, token, args);
    let json = |token: &str, args: &[&str]| -> Value {
        let said = at(Some(token), &[&["--json"], args].concat());
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str(&said.out).unwrap()
    };
    let bare = at(None, &["list"]);
    assert_eq!(bare.code, 1, "{bare:?}");
    assert!(bare.err.contains("a token is needed"), "{bare:?}");

    let create = ["token", "create", "deploys", "--role", "operator", "--namespace", "ours"];
    let made = json(&admin, &create);
    let (id, operator) = (made["token"]["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let id_of = |said: Said| said.out;
    let submit = ["submit", "x", "--namespace", "ours"];
    let execution = id_of(at(Some(operator), &submit));
    let held = json(operator, &["hold", &execution, "--actor", "ada"]);
    assert!(held.to_string().contains("deploys/ada"), "{held}");
    let other = at(Some(operator), &["submit", "x", "--namespace", "theirs"]);
    assert!(other.code == 1 && other.err.contains("namespace"), "{other:?}");
    let more = at(Some(operator), &["token", "list"]);
    assert!(more.code == 1 && more.err.contains("may not administer"), "{more:?}");

    let listed = at(Some(&admin), &["token", "list"]);
    assert!(listed.out.contains("first-admin") && listed.out.contains("deploys"), "{listed:?}");
    assert!(!listed.out.contains(operator) && !listed.out.contains(&admin), "{listed:?}");
    assert!(json(&admin, &["token", "revoke", id])["token"]["revoked_at"].is_string());
    let revoked = at(Some(operator), &["list", "--namespace", "ours"]);
    assert!(revoked.code == 1 && revoked.err.contains("revoked"), "{revoked:?}");
    assert_eq!(at(Some(&admin), &["token", "revoke", "tok_0"]).code, 3);
    server.process.terminate();
    let again = stand.serve(["--auth"]);
    assert_eq!(again.token, None, "only the first start makes a token");
}

#[test]
fn tokens_are_made_on_the_store_itself_too() {
    let stand = Stand::new();
    let made = stand.json(["token", "create", "a", "--role", "viewer", "--expires", "90d"]);
    assert!(made["secret"].as_str().unwrap().starts_with("ffk_"));
    assert!(made["token"]["expires_at"].is_string());
    let wrong = stand.run(["token", "create", "a", "--role", "king"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("allowed are viewer, worker, operator, admin"), "{wrong:?}");
    assert_eq!(stand.json(["token", "list"])["tokens"].as_array().unwrap().len(), 1);
}
