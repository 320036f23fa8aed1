//! The same done to many executions, on a store.

use std::process::Stdio;

use serde_json::Value;

use crate::stand::{Background, Stand, on_every_store};

on_every_store! {
    what_matches_is_done_and_told,
    an_operation_that_was_interrupted_is_gone_on_with,
}

fn what_matches_is_done_and_told(stand: &Stand) {
    stand.submit(["x", "--count", "30", "--delay", "1h"]);
    let kept = stand.submit(["y", "--delay", "1h"]);
    let dry = stand.ok(["bulk", "cancel", "--kind", "x", "--dry-run"]);
    assert!(dry.starts_with("30 of 30 that match") && dry.lines().count() == 11, "{dry}");
    assert_eq!(stand.json(["list", "--state", "delayed", "--count"])["count"], 31);
    let done = stand.ok(["bulk", "cancel", "--kind", "x", "--cause", "enough"]);
    assert!(done.contains("finished  cancel: 30 done, 0 skipped, 0 failed"), "{done}");
    assert_eq!(stand.json(["get", &kept])["state"], "delayed");
    let again = stand.json(["bulk", "cancel", "--all"]);
    assert_eq!((&again["done"], &again["skipped"]["already"]), (&1.into(), &30.into()));
    let one = stand.json(["bulk", "replay", &kept]);
    assert_eq!((&one["done"], &one["verb"]), (&1.into(), &"replay".into()));
    let listed = stand.ok(["bulk", "list"]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let id = again["id"].as_str().unwrap();
    let shown = stand.ok(["bulk", "get", id]);
    assert!(shown.contains("30 already") && shown.contains("started") && shown.contains("ada"), "{shown}");
}

/// It has work for half a minute, so that no slow machine sees the end of it, and is stopped when enough is seen.
fn an_operation_that_was_interrupted_is_gone_on_with(stand: &Stand) {
    stand.submit(["x", "--count", "30", "--delay", "1h"]);
    let mut slow = stand.command(["bulk", "cancel", "--kind", "x", "--rate", "1"]);
    let mut slow = slow.spawn().unwrap();
    let id = loop {
        let bulks = stand.json(["bulk", "list"]);
        if let Some(id) = bulks["bulks"][0]["id"].as_str() {
            break id.to_owned();
        }
    };
    slow.kill().unwrap();
    slow.wait().unwrap();
    let left = stand.json(["bulk", "get", &id]);
    assert_eq!(left["state"], "running");
    let mut waits = stand.command(["--json", "bulk", "get", &id, "--wait"]);
    let waits: Background = waits.stdout(Stdio::piped()).spawn().unwrap().into();
    while stand.json(["bulk", "get", &id])["done"].as_u64() <= left["done"].as_u64() {}
    stand.ok(["bulk", "stop", &id]);
    let said = waits.wait();
    let ended: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!(ended["state"], "stopped", "{ended}");
    assert_eq!(stand.json(["list", "--state", "cancelled", "--count"])["count"], ended["done"]);
}

#[test]
fn nobody_means_everything_by_saying_nothing() {
    let stand = Stand::new();
    let id = stand.submit(["x"]);
    for (args, want) in [
        (&["bulk", "cancel"][..], "which executions?"),
        (&["bulk", "cancel", &id, "--kind", "x"], "not more than one"),
        (&["bulk", "cancel", "--all", "--kind", "x"], "not more than one"),
        (&["bulk", "cancel", "--kind", "x", "--detach"], "--detach leaves it to a server"),
        (&["bulk", "priority", "101", "--all"], "allowed are -100 to 100"),
        (&["bulk", "cancel", "--all", "--rate", "0"], "rate is 0; allowed are 1"),
    ] {
        let said = stand.run(args.iter().copied());
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains(want), "{args:?}: {said:?}");
    }
    assert_eq!(stand.json(["get", &id])["state"], "waiting");
    let none = stand.run(["bulk", "get", "bulk_0"]);
    assert!(none.code == 3 && none.err.contains("flowfabric bulk list"), "{none:?}");
}
