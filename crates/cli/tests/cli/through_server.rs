//! Commands through a server: what they say is what they say on a store.

use std::process::Stdio;

use rusqlite::Connection;
use serde_json::Value;

use crate::stand::{Said, Server, Stand};

/// A server, and the folder of somebody who has no store.
struct Away {
    home: Stand,
    stand: Stand,
    server: Server,
}

impl Away {
    fn new() -> Away {
        let home = Stand::new();
        let server = home.serve([]);
        Away { home, stand: Stand::new(), server }
    }

    fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> std::process::Command {
        let mut command = self.stand.command(args);
        command.env("FLOWFABRIC_SERVER", &self.server.url);
        command
    }

    #[track_caller]
    fn ok<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let said: Said = self.command(args).output().unwrap().into();
        assert_eq!(said.code, 0, "{said:?}");
        said.out
    }

    #[track_caller]
    fn json<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Value {
        let out = self.ok(["--json"].into_iter().chain(args));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

#[test]
fn executions_are_submitted_found_changed_and_followed() {
    let away = Away::new();
    let id = away.ok(["submit", "greet", "--lane", "billing", "--input", "[1,2]"]);
    assert_eq!(away.json(["get", &id])["lane"], "billing");
    assert_eq!(away.json(["list", "--kind", "greet"])["executions"][0]["id"], id.as_str());
    assert_eq!(away.json(["list", "--count"])["count"], 1);
    assert_eq!(away.json(["lane", "pause", "billing"])["mode"], "paused");
    assert_eq!(away.json(["explain", &id])["reason"], "lane_paused");
    away.ok(["lane", "resume", "billing"]);
    let mut worker = away.command(["worker", "--kind", "greet", "--lane", "billing", "--exec", "cat"]);
    let mut worker = worker.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    away.ok(["watch", &id, "--timeout", "50s"]);
    assert_eq!(away.json(["get", &id])["result"].to_string(), "[1,2]");
    let workers = away.json(["workers", "list"]);
    assert_eq!(workers["workers"].as_array().unwrap().len(), 1, "{workers}");
    worker.kill().unwrap();
    worker.wait().unwrap();
    let events = away.ok(["tail", "--from", "beginning", "--execution", &id, "--limit", "2"]);
    assert!(events.contains("created"), "{events}");
    let other = away.ok(["submit", "x", "--delay", "1h"]);
    away.ok(["cancel", &other, "--cause", "enough"]);
    assert_eq!(away.json(["get", &other])["cancelled"]["cause"], "enough");
    let missing: Said =
        away.command(["get", "0197f3a2-6f3e-7c41-9b1d-0242ac120002"]).output().unwrap().into();
    assert_eq!(missing.code, 3, "{missing:?}");
}

#[test]
fn keys_webhooks_and_letters_are_looked_after() {
    let away = Away::new();
    away.ok(["key", "rotate", "--cause", "test"]);
    assert!(!away.json(["key", "list"])["keys"].as_array().unwrap().is_empty());
    let set =
        ["webhook", "set", "chat", "https://example.org/hook", "--fact", "failed", "--family", "execution"];
    let made = away.json(set);
    assert_eq!(made["secret"].as_str().map(str::len), Some(64));
    let again = away.json(set);
    assert_eq!((&again["secret"], &again["webhook"]["facts"][0]), (&Value::Null, &"failed".into()));
    assert_eq!(away.json(["webhook", "pause", "chat"])["paused"], true);
    let resumed = away.json(["webhook", "resume", "chat"]);
    assert_eq!((&resumed["paused"], &resumed["url"]), (&false.into(), &"https://example.org/hook".into()));
    assert!(away.ok(["webhook", "get", "chat"]).contains("https://example.org/hook"));
    assert!(away.ok(["webhook", "list"]).contains("chat"));
    assert_eq!(away.json(["webhook", "deliveries", "chat"])["deliveries"].to_string(), "[]");
    away.ok(["webhook", "remove", "chat"]);
    let gone: Said = away.command(["webhook", "get", "chat"]).output().unwrap().into();
    assert!(gone.code == 3 && gone.err.contains("flowfabric webhook list"), "{gone:?}");
    assert_eq!(away.json(["inbox", "list"])["dead_letters"].to_string(), "[]");
    let none: Said = away.command(["inbox", "drop", "7"]).output().unwrap().into();
    assert_eq!(none.code, 3, "{none:?}");
}

#[test]
fn a_dead_letter_is_shown_reposted_and_dropped() {
    let away = Away::new();
    away.ok(["lane", "drain", "billing"]);
    // What an application writes into the file of the server.
    let file = Connection::open(away.home.path("flowfabric.db")).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let post = "INSERT INTO inbox (kind, input, lane) VALUES ('charge', '7', 'billing')";
    file.execute_batch(&format!("{post}; {post};")).unwrap();
    // Both are given up; the change of the lane is an event as well.
    let events = ["tail", "--family", "operator", "--from", "beginning", "--limit", "3", "--timeout", "50s"];
    assert_eq!(away.ok(events).matches("dead_lettered").count(), 2);
    let letters = away.json(["inbox", "list"])["dead_letters"].as_array().unwrap().clone();
    let [first, second] = [&letters[0]["number"], &letters[1]["number"]].map(Value::to_string);
    assert_eq!(away.json(["inbox", "get", &first]), letters[0]);
    let shown = away.ok(["inbox", "get", &first]);
    assert!(shown.contains("lane billing is draining") && shown.contains("charge"), "{shown}");

    away.ok(["lane", "resume", "billing"]);
    let cause = ["--cause", "it is open again"];
    assert_eq!(away.json(["inbox", "repost", &first].into_iter().chain(cause))["reposted"], true);
    let created =
        ["tail", "--family", "execution", "--from", "beginning", "--limit", "1", "--timeout", "50s"];
    assert!(away.ok(created).contains("kind=charge"));
    assert_eq!(away.json(["list", "--lane", "billing"])["executions"].as_array().unwrap().len(), 1);
    assert_eq!(away.ok(["inbox", "drop", &second, "--cause", "ordered twice"]), format!("{second}  dropped"));
    assert_eq!(away.json(["inbox", "list"])["dead_letters"].to_string(), "[]");
    for what in ["get", "repost", "drop"] {
        let gone: Said = away.command(["inbox", what, &second]).output().unwrap().into();
        assert!(gone.code == 3 && gone.err.contains("there is no dead letter"), "{gone:?}");
    }
    let all = ["tail", "--family", "operator", "--from", "beginning", "--limit", "6", "--timeout", "50s"];
    let told = away.ok(all);
    assert!(told.contains("letter_reposted") && told.contains("it is open again"), "{told}");
    assert!(told.contains("letter_dropped") && told.contains("ordered twice"), "{told}");
}

#[test]
fn a_bulk_operation_is_left_to_the_server_or_waited_for() {
    let away = Away::new();
    for _ in 0..5 {
        away.ok(["submit", "x", "--delay", "1h"]);
    }
    let dry = away.json(["bulk", "cancel", "--kind", "x", "--dry-run"]);
    assert_eq!((&dry["done"], dry["first"].as_array().unwrap().len()), (&5.into(), 5));
    let done = away.json(["bulk", "priority", "-3", "--kind", "x", "--rate", "1000"]);
    assert_eq!((&done["state"], &done["done"]), (&"finished".into(), &5.into()));
    let id = away.ok(["bulk", "cancel", "--kind", "x", "--detach", "--cause", "enough"]);
    let ended = away.json(["bulk", "get", &id, "--wait"]);
    assert_eq!((&ended["done"], &ended["started_by"]), (&5.into(), &"ada".into()));
    assert_eq!(away.json(["bulk", "list"])["bulks"].as_array().unwrap().len(), 2);
    assert_eq!(away.json(["bulk", "stop", &id])["state"], "finished");
}

#[test]
fn a_server_in_the_settings_and_a_store_on_the_command_line_do_not_mix() {
    let away = Away::new();
    let id = away.ok(["submit", "x"]);
    away.stand.write("flowfabric.toml", format!("server = \"{}\"\n", away.server.url));
    assert_eq!(away.stand.json(["get", &id])["kind"], "x");
    let said = away.stand.run(["get", &id, "--store", "sqlite:own.db"]);
    assert_eq!(said.code, 3, "{said:?}");
    // A flag wins over the environment; two flags, or two variables, are one too many.
    let flag: Said = away.command(["list", "--store", "sqlite:own.db"]).output().unwrap().into();
    assert!(flag.code == 3 && flag.err.contains("own.db"), "{flag:?}");
    let flags = ["list", "--store", "sqlite:own.db", "--server", &away.server.url];
    let both: Said = away.command(flags).output().unwrap().into();
    assert!(both.code == 2 && both.err.contains("--server"), "{both:?}");
    let mut variables = away.command(["list"]);
    let both: Said = variables.env("FLOWFABRIC_STORE", "sqlite:own.db").output().unwrap().into();
    assert!(both.code == 2 && both.err.contains("--server"), "{both:?}");
    let store: Said = away.command(["doctor"]).output().unwrap().into();
    assert!(store.code == 2 && store.err.contains("--store"), "{store:?}");
}
