//! Flows from files: submitted, shown, drawn, cancelled.

use serde_json::{Value, json};

use crate::stand::{Stand, on_every_store};

on_every_store! {
    the_flow_of_the_documents_runs,
    a_flow_is_shown_listed_and_cancelled,
    who_waits_for_a_flow_learns_how_it_ended,
    a_flow_is_drawn_while_it_runs,
    an_open_flow_ends_after_it_was_sealed,
    an_open_flow_grows_from_files_and_edge_by_edge,
    a_flow_is_made_once_under_its_id_by_whom_it_says,
    a_file_says_all_about_a_node_that_the_api_takes,
    what_is_wrong_with_a_file_is_told_by_its_place_and_nothing_is_stored,
}

const DOCUMENTS: &str = include_str!("../../../../docs/flows.md");

fn documented() -> &'static str {
    DOCUMENTS.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap()
}

/// A worker that gives every input back.
fn echo(stand: &Stand, kinds: &[&str]) -> crate::stand::Background {
    let kinds = kinds.iter().flat_map(|kind| ["--kind", kind]);
    stand.worker(kinds.chain(["--exec", "cat"]))
}

fn the_flow_of_the_documents_runs(stand: &Stand) {
    stand.write("trip.yaml", documented());
    let _worker = echo(stand, &["book", "ask", "pick", "pay", "apologise", "tidy"]);
    let ended = stand.json(["flow", "submit", "trip.yaml", "--wait", "--timeout", "50s"]);
    assert_eq!(ended["state"], "completed", "{ended:#}");
    assert_eq!(ended["summary"], json!({ "completed": 6, "cancelled": 1, "skipped": 1 }));
    let pay = &ended["result"]["pay"]["inputs"];
    assert_eq!(pay["hotel"], json!({ "city": "Oslo" }));
    assert_eq!(pay["flight"]["inputs"]["offers"], json!([{ "line": "north" }, { "line": "south" }]));
    let id = ended["id"].as_str().unwrap();
    assert_eq!(stand.json(["flow", "result", id])["result"], ended["result"]);
    let result: Value = serde_json::from_str(&stand.ok(["flow", "result", id])).unwrap();
    assert_eq!(result, ended["result"]);
    let shown = stand.json(["flow", "get", id]);
    let node = |name: &str| shown["nodes"].as_array().unwrap().iter().find(|it| it["node"] == name).unwrap();
    assert_eq!(node("west")["reason"], "sibling_quorum_satisfied");
    assert_eq!(node("apologise")["state"], "skipped");
    assert_eq!(node("flight")["group"]["join"]["k"], 2);
    assert_eq!(node("hotel")["flow"], id);
}

const CHAIN: &str = "kind: etl\nnodes:\n  extract: { kind: step }\n  load: { kind: step, after: extract }\n";

fn a_flow_is_shown_listed_and_cancelled(stand: &Stand) {
    stand.write("etl.yaml", CHAIN);
    let id = stand.ok(["flow", "submit", "etl.yaml", "--tag", "day=monday"]);
    let file = json!({ "kind": "other", "nodes": { "a": { "input": "ä😀" } } });
    stand.write("other.json", file.to_string());
    let other = stand.json(["flow", "submit", "other.json"]);
    let node = other["nodes"]["a"].as_str().unwrap();
    assert_eq!(stand.json(["get", node])["input"], "ä😀");
    let said = stand.shell("cat etl.yaml | $FF flow submit -");
    assert_eq!(said.code, 0, "{said:?}");

    let shown = stand.ok(["flow", "get", &id]);
    for text in [
        "2 nodes, 1 edges, revision 1, sealed",
        "1 waiting, 1 waiting_children",
        "day=monday",
        "one, 0 there",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let ids = |args: &[&str]| -> Vec<String> {
        let list = stand.json(["flow", "list"].into_iter().chain(args.iter().copied()));
        list["flows"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]).len(), 3);
    assert_eq!(ids(&["--tag", "day=monday"]), [id.as_str()]);
    assert_eq!(ids(&["--kind", "other", "--state", "running"]), [other["id"].as_str().unwrap()]);
    assert_eq!(ids(&["--until", "1h"]).len(), 0);
    assert_eq!(ids(&["--limit", "2", "--oldest-first"]).len(), 2);
    assert!(stand.ok(["flow", "list"]).lines().count() == 4);
    assert_eq!(stand.json(["list", "--flow", &id, "--count"])["count"], 2);

    assert_eq!(stand.json(["flow", "tag", &id, "day-", "step=2"])["tags"], json!({ "step": "2" }));
    let load = stand.json(["list", "--flow", &id, "--state", "waiting_children"]);
    let why = stand.ok(["explain", load["executions"][0]["id"].as_str().unwrap()]);
    assert!(why.contains("0 of 1 needed are satisfied, 1 have not ended: extract (waiting)"), "{why}");

    let drawn = stand.ok(["flow", "graph", &id]);
    assert!(
        drawn.contains("  ◌ extract  waiting\n  │\n  ○ load     waiting_children    ◀ extract ◌"),
        "{drawn}"
    );
    let edges = &stand.json(["flow", "graph", &id])["edges"];
    assert_eq!((&edges[0]["on"], &edges[0]["state"]), (&json!("success"), &json!("pending")));

    let gone =
        stand.json(["flow", "cancel", &id, "--policy", "cancel_pending", "--wait", "--cause", "wrong file"]);
    assert_eq!(gone["state"], "cancelled");
    assert_eq!(gone["members"].as_array().unwrap().len(), 2);
    assert_eq!(gone["cancelled"]["cause"], "wrong file");
    assert_eq!(stand.run(["flow", "cancel", &id]).code, 0, "again is harmless");
    let tail = stand.ok(["tail", "--flow", &id, "--from", "beginning", "--limit", "7"]);
    assert!(tail.contains("flow_created") && tail.contains("flow_cancel_requested"), "{tail}");

    let nobody = "0197f3a2-6f3e-7c41-9b1d-0242ac120000";
    for command in ["get", "graph", "cancel", "seal"] {
        let said = stand.run(["flow", command, nobody]);
        assert_eq!(said.code, 3, "{command} {said:?}");
        assert!(
            said.err.starts_with(&format!("error: there is no flow {nobody}\nhint: `flowfabric flow list`")),
            "{said:?}"
        );
    }
}

fn who_waits_for_a_flow_learns_how_it_ended(stand: &Stand) {
    stand.write("etl.yaml", CHAIN);
    let said = stand.run(["flow", "submit", "etl.yaml", "--wait", "--timeout", "10ms"]);
    assert_eq!(said.code, 124, "{said:?}");
    assert!(said.err.contains("hint: it goes on; `flowfabric flow graph"), "{said:?}");
    let _worker = stand.worker(["--kind", "step", "--exec", "echo no rows >&2; exit 65"]);
    let said = stand.run(["flow", "submit", "etl.yaml", "--wait", "--timeout", "50s"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.err.contains("failed: node extract failed (fatal_error): no rows"), "{said:?}");
}

fn a_flow_is_drawn_while_it_runs(stand: &Stand) {
    stand.write("etl.yaml", CHAIN);
    let id = stand.ok(["flow", "submit", "etl.yaml"]);
    let _worker = echo(stand, &["step"]);
    let lines = stand.ok(["flow", "graph", &id, "--watch", "--timeout", "50s", "--json"]);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["state"], &last["summary"]), (&json!("completed"), &json!({ "completed": 2 })));
    let drawn = stand.ok(["flow", "graph", &id, "--watch"]);
    assert!(drawn.contains("✔ load     completed  took"), "{drawn}");
    stand.ok(["flow", "submit", "etl.yaml", "--wait", "--timeout", "50s"]);
}

fn an_open_flow_ends_after_it_was_sealed(stand: &Stand) {
    stand.write("open.yaml", "kind: a\nopen: true\nnodes:\n  x: { kind: step }\n");
    let id = stand.ok(["flow", "submit", "open.yaml"]);
    let _worker = echo(stand, &["step"]);
    assert_eq!(stand.json(["flow", "get", &id])["state"], "open");
    assert_eq!(stand.run(["flow", "seal", &id, "--expected-revision", "99"]).code, 4);
    stand.ok(["flow", "seal", &id, "--expected-revision", "1", "--cause", "that is all"]);
    assert_eq!(stand.run(["flow", "graph", &id, "--watch", "--timeout", "50s"]).code, 0);
}

fn an_open_flow_grows_from_files_and_edge_by_edge(stand: &Stand) {
    stand.write(
        "report.yaml",
        "kind: report\nopen: true\nnodes:\n  head: {}\n  bind: { kind: step, open: true }\n",
    );
    let made = stand.json(["flow", "submit", "report.yaml"]);
    let id = made["id"].as_str().unwrap();
    let policy = |args: &[&str]| stand.run(["flow", "policy", id, "bind"].iter().chain(args).copied());
    assert_eq!(policy(&["quorum", "--k", "2"]).out.lines().last().unwrap().split("  ").nth(1), Some("set"));
    assert!(policy(&["quorum", "--k", "2"]).out.contains("already set"));
    assert_eq!(policy(&["any_of", "--expected-revision", "99"]).code, 4);
    assert_eq!(policy(&["quorum"]).code, 2, "a quorum says how many");
    assert_eq!(policy(&["any_of", "--k", "2"]).code, 2);

    stand.write("more.yaml", "defaults: { kind: step }\nnodes: {}\n");
    let said = stand.run(["flow", "grow", id, "more.yaml"]);
    assert_eq!(
        (said.code, said.err.contains("more.yaml:1:13: defaults has no field \"kind\"")),
        (2, true),
        "{said:?}"
    );
    stand.write(
        "more.yaml",
        "nodes:\n  p1: { kind: step, after: head }\n  p2: { kind: step, after: [head, nobody] }\n",
    );
    let said = stand.run(["flow", "grow", id, "more.yaml"]);
    assert!(
        said.code == 2 && said.err.contains("more.yaml:3:35: nodes.p2.after names \"nobody\""),
        "{said:?}"
    );
    assert_eq!(stand.json(["flow", "get", id])["node_count"], 2, "nothing of it is stored");
    stand.write(
        "more.yaml",
        "nodes:\n  p1: { kind: step, after: head }\n  p2: { kind: step, after: [head, p1] }\n",
    );
    let stale = stand.run(["flow", "grow", id, "more.yaml", "--expected-revision", "99"]);
    assert_eq!(stale.code, 4, "{stale:?}");
    let grown = stand.json(["flow", "grow", id, "more.yaml", "--actor", "ada"]);
    assert_eq!((&grown["node_count"], &grown["edge_count"]), (&json!(4), &json!(3)));
    let p2 = grown["nodes"]["p2"].as_str().unwrap();

    for (from, more) in [("p1", &["--as", "first"][..]), (p2, &[]), ("head", &["--on", "always"])] {
        stand.ok(["flow", "edge", id, from, "bind"].iter().chain(more).copied());
    }
    assert_eq!(stand.run(["flow", "edge", id, "p1", "bind"]).code, 4, "it is there");
    assert_eq!(stand.run(["flow", "edge", id, "p1", "nobody"]).code, 3);
    assert_eq!(stand.run(["flow", "edge", id, "p1", "bind", "--on", "failure", "--as", "x"]).code, 2);
    let edges = stand.json(["flow", "edges", id, "bind"]);
    let ons: Vec<&Value> = edges["edges"].as_array().unwrap().iter().map(|it| &it["on"]).collect();
    assert_eq!(ons, ["success", "success", "always"]);
    assert_eq!((&edges["edges"][0]["field"], &edges["edges"][1]["upstream"]), (&json!("first"), &json!(p2)));
    let out = stand.ok(["flow", "edges", id, "head", "--out", "--limit", "2"]);
    assert!(out.contains("pending") && out.contains("more: --after "), "{out}");
    assert_eq!(stand.run(["flow", "edges", id, "nobody"]).code, 3);
    assert_eq!(stand.run(["flow", "edges", id, "head", "--limit", "0"]).code, 2);
    assert_eq!(stand.run(["flow", "edge", id, "p1", "bind", "--cause", "why"]).code, 2, "no cause is kept");
    let bind = || stand.json(["flow", "get", id])["nodes"][1].clone();
    assert_eq!((&bind()["node"], &bind()["open"]), (&json!("bind"), &json!(true)));
    stand.ok(["flow", "seal", id, "--node", "bind"]);
    assert_eq!(bind()["open"], false);
    assert_eq!(stand.run(["flow", "seal", id, "--node", "nobody"]).code, 3);
}

fn a_flow_is_made_once_under_its_id_by_whom_it_says(stand: &Stand) {
    let id = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";
    let nested = "kind: a\nnodes:\n  x: { kind: step }\n  y: { after: x, flow: { z: { kind: step } } }\n";
    stand.write("a.yaml", nested);
    let submit = |file: &str| stand.run(["--json", "flow", "submit", file, "--id", id]);
    let made: Vec<Value> = (0..2).map(|_| serde_json::from_str(&submit("a.yaml").out).unwrap()).collect();
    assert_eq!((&made[0]["existing"], &made[1]["existing"]), (&json!(false), &json!(true)));
    assert_eq!((&made[0]["id"], &made[0]["nodes"]), (&json!(id), &made[1]["nodes"]));
    assert_eq!(stand.stored(), 3);
    let said = stand.run(["flow", "submit", "a.yaml", "--id", id]);
    assert!(said.out == id && said.err.starts_with("note: this id was used before"), "{said:?}");
    stand.write("b.yaml", nested.replace("kind: a", "kind: b"));
    assert_eq!(submit("b.yaml").code, 4);
    assert_eq!(stand.json(["flow", "get", id])["created_by"], "ada");
    let other = stand.ok(["flow", "submit", "a.yaml", "--actor", "bob"]);
    assert_eq!(stand.json(["flow", "get", &other])["created_by"], "bob");
}

fn a_file_says_all_about_a_node_that_the_api_takes(stand: &Stand) {
    let file = "kind: a
defaults: { attempts: 7, policy: { max_elapsed_ms: 1h, backoff: { factor: 3 } } }
nodes:
  csv: { kind: step, content_type: text/csv, input: 'a;b' }
  bytes: { kind: step, input_base64: aGk= }
  later: { kind: nobody, run_at: 2126-01-31T12:00:00Z, deadline_at: 2126-02-01T00:00:00Z }
  tried: { kind: nobody, policy: { max_attempts: 2, lease_loss: counts } }
";
    stand.write("all.yaml", file);
    let made = stand.json(["flow", "submit", "all.yaml"]);
    let node = |name: &str| stand.json(["get", made["nodes"][name].as_str().unwrap()]);
    assert_eq!(node("csv")["input"], json!({ "content_type": "text/csv", "text": "a;b" }));
    assert_eq!(node("bytes")["input"], json!({ "content_type": "application/octet-stream", "text": "hi" }));
    let later = node("later");
    assert_eq!((&later["state"], &later["attempts_max"]), (&json!("delayed"), &json!(7)));
    assert_eq!(later["deadline_at"], "2126-02-01T00:00:00.000Z");
    assert_eq!(node("tried")["attempts_max"], 2);
}

fn what_is_wrong_with_a_file_is_told_by_its_place_and_nothing_is_stored(stand: &Stand) {
    for (name, text, want) in [
        (
            "a.yaml",
            "kind: a\nnodes:\n  x: { afer: y }\n",
            "a.yaml:3:8: nodes.x has no field \"afer\"; did you mean \"after\"?",
        ),
        (
            "b.json",
            "{\n  \"kind\": \"a\",\n  \"nodes\": 5\n}",
            "b.json:3:12: nodes is a number; an object is needed here",
        ),
        (
            "c.yml",
            "kind: a\nnodes:\n  x: {}\n  y: { quorum: { k: 3, of: x } }\n",
            "c.yml:4:16: nodes.y.quorum is 3, and it has 1 upstreams; allowed are 1 to 1",
        ),
        ("d.json", "{", "d.json:1:1: EOF while parsing an object"),
    ] {
        stand.write(name, text);
        let said = stand.run(["flow", "submit", name]);
        assert_eq!((said.code, said.err.as_str()), (2, format!("error: {want}").as_str()));
    }
    let said = stand.run(["flow", "submit", "none.yaml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: file: cannot read none.yaml"), "{said:?}");
    assert_eq!(stand.stored(), 0);
}
