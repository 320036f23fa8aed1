//! Looking at what is there: get, list, watch, explain, counts, tail, backup.

use serde_json::Value;

use crate::stand::{Stand, on_every_store};

on_every_store! {
    a_submission_is_shown_with_all_it_was_given,
    the_same_key_gives_the_first_execution_and_other_content_is_refused,
    pages_filters_and_counts_agree,
    explain_names_what_blocks,
    a_cursor_goes_on_where_tail_ended,
    waiting_in_vain_ends_with_124,
    what_is_not_there_ends_with_3,
    a_reader_that_goes_away_is_no_error,
}

fn a_submission_is_shown_with_all_it_was_given(stand: &Stand) {
    let args = "charge --input {\"order\":7} --lane billing --namespace acme --priority -5 --delay 1h \
                --deadline 2h --capability eu --capability gpu --tag team.name=payments --key order-7 \
                --attempts 5 --backoff 2m --no-jitter";
    let id = stand.submit(args.split_whitespace());
    let got = stand.json(["get", &id]);
    for (field, want) in [
        ("kind", "\"charge\""),
        ("lane", "\"billing\""),
        ("namespace", "\"acme\""),
        ("priority", "-5"),
        ("state", "\"delayed\""),
        ("reason", "\"waiting_for_delay\""),
        ("capabilities", "[\"eu\",\"gpu\"]"),
        ("tags", "{\"team.name\":\"payments\"}"),
        ("input", "{\"order\":7}"),
        ("idempotency_key", "\"order-7\""),
        ("attempts_max", "5"),
        ("result", "null"),
    ] {
        assert_eq!(got[field].to_string(), want, "{field}");
    }
    let shown = stand.ok(["get", &id]);
    assert!(shown.contains("delayed (waiting_for_delay)") && shown.contains("team.name=payments"), "{shown}");
}

fn the_same_key_gives_the_first_execution_and_other_content_is_refused(stand: &Stand) {
    let first = stand.json(["submit", "x", "--key", "k", "--input", "1"]);
    let second = stand.json(["submit", "x", "--key", "k", "--input", "1"]);
    assert_eq!((&first["id"], &second["existing"]), (&second["id"], &Value::Bool(true)));
    let said = stand.run(["submit", "x", "--key", "k", "--input", "2"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(first["id"].as_str().unwrap()), "{said:?}");
    assert_eq!(stand.stored(), 1);
}

fn pages_filters_and_counts_agree(stand: &Stand) {
    stand.submit(["a", "--count", "5", "--tag", "n=1"]);
    stand.submit(["b", "--lane", "other"]);
    let count = |args: &[&str]| -> u64 {
        let args = ["list", "--count"].into_iter().chain(args.iter().copied());
        stand.json(args)["count"].as_u64().unwrap()
    };
    assert_eq!(count(&[]), 6);
    assert_eq!(count(&["--kind", "a"]), 5);
    assert_eq!(count(&["--lane", "other", "--state", "waiting"]), 1);
    assert_eq!(count(&["--tag", "n=1", "--since", "1h"]), 5);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["--state", "completed", "--state", "failed"]), 0);
    assert_eq!(stand.json(["counts"])["total"], 6);
    let named = serde_json::json!({ "name": "default", "executions": 6, "states": { "waiting": 6 } });
    assert_eq!(stand.json(["namespaces"])["namespaces"], serde_json::json!([named]));
    assert!(stand.ok(["namespaces"]).contains("6 waiting"));

    let first = stand.json(["list", "--limit", "4", "--oldest-first"]);
    let cursor = first["next"].as_str().unwrap();
    let second = stand.json(["list", "--limit", "4", "--oldest-first", "--cursor", cursor]);
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["executions"].as_array().unwrap().iter();
        rows.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids(&first).len(), ids(&second).len()), (4, 2));
    let mut all = [ids(&first), ids(&second)].concat();
    all.dedup();
    assert_eq!(all.len(), 6);
    let table = stand.ok(["list"]);
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(all.iter().all(|id| table.contains(id)), "ids are shown in full");
}

fn explain_names_what_blocks(stand: &Stand) {
    let id = stand.submit(["render", "--capability", "gpu"]);
    let why = stand.json(["explain", &id]);
    assert_eq!(why["reason"], "no_capable_worker");
    assert!(stand.ok(["explain", &id]).contains("no worker serves the lane default"));
    stand.ok(["lane", "pause", "default", "--cause", "the bank is closed"]);
    let why = stand.ok(["explain", &id]);
    assert!(why.contains("lane_paused") && why.contains("by \"ada\": \"the bank is closed\""), "{why}");
    assert!(why.contains("since 20"), "times are readable: {why}");
}

fn a_cursor_goes_on_where_tail_ended(stand: &Stand) {
    stand.submit(["a"]);
    stand.submit(["b"]);
    let said = stand.run(["tail", "--from", "beginning", "--limit", "1", "--json"]);
    let event: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(event["event"], "created");
    let end: Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(end["cursor"], event["cursor"]);
    let cursor = end["cursor"].as_str().unwrap();
    let rest = stand.ok(["tail", "--from", cursor, "--limit", "1"]);
    // Which comes first is up to their partitions.
    let other_kind = if event["kind"] == "a" { "kind=b" } else { "kind=a" };
    assert!(rest.contains(other_kind), "{rest}");
    let other = stand.another();
    other.submit(["a"]);
    let said = other.run(["tail", "--from", cursor]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("belongs to another store"), "{said:?}");
}

fn waiting_in_vain_ends_with_124(stand: &Stand) {
    let said = stand.run(["submit", "x", "--wait", "--timeout", "50ms"]);
    assert_eq!(said.code, 124, "{said:?}");
    let id = said.err.lines().next().unwrap().to_owned();
    let said = stand.run(["watch", &id, "--timeout", "50ms"]);
    assert_eq!(said.code, 124, "{said:?}");
    assert!(said.out.contains("waiting_for_worker") && said.err.contains("hint: it goes on"), "{said:?}");
}

fn what_is_not_there_ends_with_3(stand: &Stand) {
    let nobody = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";
    stand.submit(["x"]);
    for command in ["get", "watch", "explain", "cancel", "replay", "hold", "release", "revoke", "remove"] {
        let said = stand.run([command, nobody]);
        assert_eq!(said.code, 3, "{command} {said:?}");
        assert!(said.err.starts_with(&format!("error: there is no execution {nobody}\nhint: ")), "{said:?}");
    }
    let said = stand.run(["--json", "get", nobody]);
    let error: Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
}

#[test]
fn a_file_that_is_not_there_is_not_made_by_looking() {
    let stand = Stand::new();
    let said = stand.run(["get", "0197f3a2-6f3e-7c41-9b1d-0242ac120002"]);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("there is no file") && !stand.path("flowfabric.db").exists(), "{said:?}");
}

#[test]
fn a_backup_is_a_store_and_never_overwrites() {
    let stand = Stand::new();
    let id = stand.submit(["x", "--input", "[1,2]"]);
    stand.ok(["store", "backup", "copy.db"]);
    assert_eq!(stand.json(["--store", "sqlite:copy.db", "get", &id])["input"].to_string(), "[1,2]");
    let said = stand.run(["store", "backup", "copy.db"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("exists already"), "{said:?}");
    assert_eq!(stand.json(["store", "check"])["ok"], true);
    assert_eq!(stand.json(["doctor"])["executions"], 1);
}

fn a_reader_that_goes_away_is_no_error(stand: &Stand) {
    stand.submit(["x", "--count", "500"]);
    let said = stand.shell("$FF list --limit 500 --json | head -n 1");
    assert_eq!((said.out.as_str(), said.err.as_str()), ("{", ""));
}

#[test]
fn a_command_that_ends_leaves_the_store_in_order() {
    let stand = Stand::new();
    for _ in 0..3 {
        stand.submit(["x"]);
    }
    let left = std::fs::read_dir(stand.path("flowfabric.db-lock")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["turn"], "no server is registered that has ended");
}
