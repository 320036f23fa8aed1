//! Waiting for what is there already, and what interrupts it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;

use crate::stand::{Background, Stand, on_every_store};

const NOBODY: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";
const ANY: &str = "kind: a\nnodes:\n  x: { kind: nobody }\n";

on_every_store! {
    the_result_of_an_execution_is_waited_for,
    a_bulk_operation_is_known_again_by_its_id_and_waited_for_so_long,
}

fn the_result_of_an_execution_is_waited_for(stand: &Stand) {
    let id = stand.submit(["greet", "--input", "[1,2]"]);
    let late = stand.run(["result", &id, "--timeout", "10ms"]);
    assert_eq!(late.code, 124, "{late:?}");
    assert!(late.err.contains("hint: it goes on; `flowfabric explain"), "{late:?}");
    let _worker = stand.worker(["--kind", "greet", "--exec", "cat"]);
    let said = stand.run(["result", &id, "--timeout", "50s"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "[1,2]", id.as_str()));
    let document = stand.json(["result", &id]);
    assert_eq!((&document["state"], &document["result"]), (&json!("completed"), &json!([1, 2])));

    let gone = stand.submit(["nobody"]);
    stand.ok(["cancel", &gone, "--cause", "ordered twice"]);
    let said = stand.run(["result", &gone]);
    assert_eq!((said.code, said.out.as_str()), (6, ""), "{said:?}");
    assert!(said.err.contains("--attempts` shows every attempt"), "{said:?}");
    assert_eq!(stand.run(["--json", "result", &gone]).code, 6);
    assert_eq!(stand.run(["result", NOBODY]).code, 3);
}

fn a_bulk_operation_is_known_again_by_its_id_and_waited_for_so_long(stand: &Stand) {
    let id = stand.submit(["x"]);
    for _ in 0..2 {
        let done = stand.json(["bulk", "cancel", &id, "--id", "bulk_monday"]);
        assert_eq!((&done["id"], &done["done"]), (&json!("bulk_monday"), &json!(1)));
    }
    assert_eq!(stand.json(["bulk", "list"])["bulks"].as_array().unwrap().len(), 1);
    assert_eq!(stand.run(["bulk", "priority", "5", "--all", "--id", "bulk_monday"]).code, 4);
    assert_eq!(stand.run(["bulk", "replay", &id, "--id", "two words"]).code, 2);
    assert_eq!(stand.ok(["bulk", "get", "bulk_monday", "--wait", "--timeout", "50s"]).lines().count(), 7);
    assert_eq!(
        stand.run(["bulk", "get", "bulk_monday", "--timeout", "1s"]).code,
        2,
        "--timeout needs --wait"
    );
}

#[test]
fn a_slow_bulk_operation_goes_on_when_nobody_waits_for_it_any_more() {
    let stand = Stand::through_a_server();
    stand.submit(["x", "--count", "40"]);
    let id = stand.ok(["bulk", "cancel", "--kind", "x", "--rate", "1", "--detach"]);
    let late = stand.run(["bulk", "get", &id, "--wait", "--timeout", "10ms"]);
    assert_eq!(late.code, 124, "{late:?}");
    assert!(late.err.contains("has not ended in time"), "{late:?}");
    assert_eq!(stand.json(["bulk", "get", &id])["state"], "running");
}

/// Starts a command and ends it when it has said what it says while it waits.
fn interrupted(stand: &Stand, args: &[&str], waits: impl FnOnce(&mut Child)) -> i32 {
    let mut command = stand.command(args.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    waits(&mut child);
    Background::from(child).terminate().code
}

/// Whoever goes on only if it has happened does not go on after an interruption.
#[test]
fn who_is_interrupted_while_it_waits_does_not_say_that_it_has_happened() {
    let stand = Stand::through_a_server();
    let first_line = |child: &mut Child| {
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).map(drop).unwrap();
    };
    let id = stand.submit(["nobody"]);
    assert_eq!(interrupted(&stand, &["watch", &id], first_line), 6);
    stand.write("any.yaml", ANY);
    let flow = stand.ok(["flow", "submit", "any.yaml"]);
    assert_eq!(interrupted(&stand, &["--json", "flow", "graph", &flow, "--watch"], first_line), 6);
}
