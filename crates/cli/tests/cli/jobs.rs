//! Many executions from a file.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::stand::{Said, Stand, on_every_store};

on_every_store! {
    a_file_of_different_executions_is_submitted_in_order,
    what_is_wrong_in_a_file_is_told_by_line_and_field_and_nothing_is_stored,
    what_a_rule_refuses_is_told_by_line_and_the_others_are_stored,
}

fn a_file_of_different_executions_is_submitted_in_order(stand: &Stand) {
    stand.write(
        "jobs.jsonl",
        r#"{"kind": "charge", "input": {"order": 7}, "lane": "billing", "idempotency_key": "order-7"}

{"kind": "mail", "priority": 5, "delay_ms": "1h", "tags": {"team.name": "sales"}, "policy": {"max_attempts": 7}}
{"kind": "charge", "input": {"order": 7}, "lane": "billing", "idempotency_key": "order-7"}
"#,
    );
    let ids = stand.ok(["submit", "--file", "jobs.jsonl"]);
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!((ids.len(), ids[0]), (3, ids[2]));
    let charge = stand.json(["get", ids[0]]);
    assert_eq!(
        (&charge["lane"], charge["input"].to_string()),
        (&"billing".into(), "{\"order\":7}".to_owned())
    );
    let mail = stand.json(["get", ids[1]]);
    assert_eq!((&mail["state"], &mail["attempts_max"]), (&"delayed".into(), &7.into()));
    assert_eq!((&mail["priority"], &mail["tags"]["team.name"]), (&5.into(), &"sales".into()));

    let lines = stand.ok(["submit", "--file", "jobs.jsonl", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        lines.iter().map(|it| (it["line"].as_u64().unwrap(), it["existing"] == true)).collect();
    assert_eq!(told, [(1, true), (3, false), (4, true)]);

    stand.write("jobs.json", "[\n  {\"kind\": \"a\"},\n  {\"kind\": \"b\",\n   \"input\": [1,\n  2]}\n]\n");
    assert_eq!(stand.ok(["submit", "--file", "jobs.json"]).lines().count(), 2);
    let said = stand.shell("seq 1500 | sed 's/.*/{\"kind\": \"n\", \"input\": &}/' | $FF submit --file -");
    assert_eq!((said.code, said.out.lines().count()), (0, 1500), "{}", said.err);
    assert_eq!(stand.json(["list", "--count", "--kind", "n"])["count"], 1500);
    let last = said.out.lines().last().unwrap();
    assert_eq!(stand.json(["get", last])["input"], 1500);
}

fn what_is_wrong_in_a_file_is_told_by_line_and_field_and_nothing_is_stored(stand: &Stand) {
    let good = "{\"kind\": \"a\"}";
    let cases = [
        (format!("{good}\n{{\"kind\": \"a b\"}}\n"), "jobs.jsonl, line 2: kind contains ' '; allowed are"),
        (format!("{good}\n\n{{\"kind\": \"a\", \"prio\": 1}}"), "line 3: prio: unknown field `prio`"),
        (format!("{good}\n{{\"kind\": \"a\", \"priority\": 101}}"), "line 2: priority is 101; allowed are"),
        (format!("{good}\n{{\"kind\": \"a\", \"priority\": \"x\"}}"), "line 2: priority: invalid type"),
        (format!("{good}\n{{\"lane\": \"x\"}}"), "line 2: missing field `kind`"),
        (
            format!("{good}\n{{\"kind\": \"a\", \"policy\": {{\"lease_ms\": 1}}}}"),
            "line 2: policy.lease_ms is 1",
        ),
        (
            format!("{good}\n{{\"kind\": \"a\", \"policy\": {{\"lease_ms\": []}}}}"),
            "line 2: policy.lease_ms: ",
        ),
        (format!("{good}\n{{\"kind\":\n\"a\"}}"), "line 2: EOF while parsing"),
        (format!("{good}\n7\n"), "line 2: invalid type: integer"),
        ("[{\"kind\": \"a\"},\n{\"kind\": \"\"}]".to_owned(), "line 2: kind has 0 bytes"),
        ("[{\"kind\": \"a\"},\n\n{\"kind\":\n1}]".to_owned(), "line 4: kind: invalid type"),
        ("[{\"kind\": \"a\"},\n".to_owned(), "line 2: EOF while parsing"),
    ];
    for (text, want) in cases {
        stand.write("jobs.jsonl", &text);
        let said = stand.run(["submit", "--file", "jobs.jsonl"]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{text}: {said:?}");
        assert!(said.err.contains(want), "{text}: {said:?}");
    }
    let missing = stand.run(["submit", "--file", "missing.jsonl"]);
    assert!(missing.code == 2 && missing.err.contains("cannot read missing.jsonl"), "{missing:?}");
    for mixed in [&["x"][..], &["--lane", "x"], &["--count", "2"], &["--wait"], &["--input", "1"], &["-"]] {
        let said = stand.run(["submit", "--file", "jobs.jsonl"].into_iter().chain(mixed.iter().copied()));
        assert!(said.code == 2 && said.err.contains("--file"), "{mixed:?}: {said:?}");
    }
    assert_eq!(stand.run(["submit"]).code, 2);
    assert_eq!(stand.json(["list", "--count"])["count"], 0);
}

fn what_a_rule_refuses_is_told_by_line_and_the_others_are_stored(stand: &Stand) {
    stand.ok(["lane", "drain", "billing"]);
    stand.write(
        "jobs.jsonl",
        "{\"kind\": \"a\"}\n{\"kind\": \"a\", \"lane\": \"billing\"}\n{\"kind\": \"a\"}\n",
    );
    let said = stand.run(["submit", "--file", "jobs.jsonl"]);
    assert_eq!((said.code, said.out.lines().count()), (4, 2), "{said:?}");
    assert!(said.err.contains("jobs.jsonl, line 2: lane billing is draining"), "{said:?}");
    assert!(said.err.ends_with("2 submitted, 1 refused"), "{said:?}");
    let said = stand.run(["submit", "--file", "jobs.jsonl", "--json"]);
    let second: Value = serde_json::from_str(said.out.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&second["line"], &second["error"]["code"]), (&2.into(), &"lane_draining".into()), "{second}");
}

#[test]
fn what_comes_before_a_line_that_is_wrong_on_the_standard_input_is_stored() {
    let stand = Stand::new();
    let mut command = stand.command(["submit", "--file", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"kind\": \"a\"}\n{\"kind\": \"a\"}\nnonsense\n").unwrap();
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.out.lines().count()), (2, 2), "{said:?}");
    assert!(said.err.contains("standard input, line 3: ") && said.err.contains("2 before it"), "{said:?}");
    assert_eq!(stand.stored(), 2);
}
