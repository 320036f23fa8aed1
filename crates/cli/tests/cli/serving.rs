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

/// An authority and a certificate of its for this machine, made by the `openssl` that PostgreSQL's package brings.
fn certificates(stand: &Stand) {
    stand.write("extension", "subjectAltName=IP:127.0.0.1\n");
    for arguments in [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile extension",
    ] {
        let mut openssl = std::process::Command::new("openssl");
        let done = openssl.args(arguments.split_whitespace()).current_dir(stand.path("")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_server_with_a_certificate_is_reached_by_who_trusts_its_authority() {
    let stand = Stand::new();
    certificates(&stand);
    let server = stand.serve(["--auth", "--tls-cert", "server.pem", "--tls-key", "server.key"]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let token = server.token.clone();
    let id = at(&stand, &server.url, token.as_deref(), &["submit", "x", "--ca-file", "ca.pem"]);
    assert_eq!(id.code, 0, "{id:?}");
    stand.write("flowfabric.toml", "ca_file = \"ca.pem\"\n");
    assert_eq!(at(&stand, &server.url, token.as_deref(), &["get", &id.out]).code, 0);
    stand.write("flowfabric.toml", "");
    let stranger = at(&stand, &server.url, token.as_deref(), &["get", &id.out]);
    assert_eq!(stranger.code, 5, "{stranger:?}");
    assert!(stranger.err.to_lowercase().contains("certificate"), "{stranger:?}");
    let missing = at(&stand, &server.url, token.as_deref(), &["get", &id.out, "--ca-file", "none.pem"]);
    assert!(missing.code == 2 && missing.err.contains("ca_file"), "{missing:?}");
}

#[test]
fn a_place_tells_of_itself_its_limits_and_what_waits() {
    let stand = Stand::new();
    stand.write("flowfabric.toml", "[limits]\ntags_max = 9\n");
    stand.submit(["x"]);
    let here = stand.json(["info"]);
    assert_eq!((&here["about"]["store"], &here["about"]["role"]), (&"sqlite".into(), &"admin".into()));
    assert_eq!((&here["limits"]["tags_max"], &here["stats"]["queued"]), (&9.into(), &0.into()));
    assert!(stand.run(["info"]).out.contains("limit tags_max"));
    let server = stand.serve(["--auth"]);
    let token = server.token.clone();
    let there = at(&stand, &server.url, token.as_deref(), &["info", "--json"]);
    let there: Value = serde_json::from_str(&there.out).unwrap();
    assert_eq!((&there["about"]["authentication"], &there["limits"]["tags_max"]), (&true.into(), &9.into()));
    // What a token may not see is left out.
    let viewer = ["--json", "token", "create", "v", "--role", "viewer", "--namespace", "ours"];
    let made: Value = serde_json::from_str(&at(&stand, &server.url, token.as_deref(), &viewer).out).unwrap();
    let seen = at(&stand, &server.url, made["secret"].as_str(), &["info", "--json"]);
    let seen: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!((&seen["about"]["role"], &seen["stats"]), (&"viewer".into(), &Value::Null));
}

#[test]
fn what_a_token_may_not_see_is_said_to_be_hidden() {
    let stand = Stand::new();
    let id = stand.submit(["greet", "--input", "\"secret\""]);
    let worker = stand.worker(["--kind", "greet", "--exec", "cat"]);
    stand.ok(["result", &id, "--timeout", "50s"]);
    drop(worker);
    let server = stand.serve(["--auth"]);
    let viewer = ["--json", "token", "create", "v", "--role", "viewer"];
    let made = at(&stand, &server.url, server.token.as_deref(), &viewer);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let seen = |args: &[&str]| at(&stand, &server.url, made["secret"].as_str(), args);
    let got = seen(&["get", &id]);
    assert_eq!(got.out.matches("hidden from this token").count(), 2, "{got:?}");
    let got: Value = serde_json::from_str(&seen(&["get", &id, "--json"]).out).unwrap();
    assert_eq!(
        (got["hidden"].to_string().as_str(), &got["result"]),
        ("[\"input\",\"result\"]", &Value::Null)
    );
    let result = seen(&["result", &id]);
    assert_eq!((result.code, result.out.as_str()), (0, ""), "{result:?}");
    assert!(result.err.contains("note: the result is hidden from this token"), "{result:?}");
    let own = stand.json(["get", &id]);
    assert_eq!((&own["hidden"], &own["result"]), (&Value::Null, &"secret".into()));
}
