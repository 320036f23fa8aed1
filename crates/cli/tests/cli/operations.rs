//! Changing the course of work.

use crate::stand::{Stand, on_every_store};

const NOBODY: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";

on_every_store! {
    an_id_and_a_whole_policy_can_be_given,
    cancel_ends_work_and_keeps_who_and_why,
    many_ids_are_all_tried_and_the_first_problem_decides_the_exit_code,
    hold_release_priority_tags_replay_remove,
    lanes_pause_drain_and_are_set,
}

fn an_id_and_a_whole_policy_can_be_given(stand: &Stand) {
    let id = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";
    let policy =
        r#"{"max_attempts":7,"max_elapsed_ms":"1h","non_retryable":["bad"],"backoff":{"initial_ms":"5s"}}"#;
    let made = stand.json(["submit", "x", "--id", id, "--policy", policy]);
    assert_eq!((&made["id"], &made["existing"]), (&id.into(), &false.into()));
    assert_eq!(stand.json(["get", id])["attempts_max"], 7);
    assert_eq!(stand.json(["submit", "x", "--id", id, "--policy", policy])["existing"], true);
    assert_eq!(stand.run(["submit", "y", "--id", id]).code, 4);
    let other = stand.submit(["x", "--policy", policy, "--attempts", "2"]);
    assert_eq!(stand.json(["get", &other])["attempts_max"], 2);
    for (policy, text) in [("{\"colour\":1}", "colour"), ("{\"lease_ms\":\"soon\"}", "30s"), ("[", "EOF")] {
        let said = stand.run(["submit", "x", "--policy", policy]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(text) && said.err.contains("policy"), "{said:?}");
    }
    assert_eq!(stand.stored(), 2);
}

fn cancel_ends_work_and_keeps_who_and_why(stand: &Stand) {
    let id = stand.submit(["x"]);
    stand.ok(["cancel", &id, "--cause", "ordered twice"]);
    let got = stand.json(["get", &id]);
    assert_eq!(
        (got["state"].as_str(), got["reason"].as_str()),
        (Some("cancelled"), Some("cancelled_by_request"))
    );
    assert_eq!(got["cancelled"]["actor"], "ada");
    assert_eq!(got["cancelled"]["cause"], "ordered twice");
    // What has ended ends a watch at once, with the code that says how.
    assert_eq!(stand.run(["watch", &id]).code, 6);
    assert_eq!(stand.run(["submit", "x", "--key", "k", "--deadline", "1ms", "--wait"]).code, 6);
}

fn many_ids_are_all_tried_and_the_first_problem_decides_the_exit_code(stand: &Stand) {
    let (a, b) = (stand.submit(["x"]), stand.submit(["x"]));
    let said = stand.run(["cancel", &a, NOBODY, &b, "--json"]);
    assert_eq!(said.code, 3);
    let results: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(results["results"][0]["state"], "cancelled");
    assert_eq!(results["results"][1]["error"]["code"], "not_found");
    assert_eq!(results["results"][2]["state"], "cancelled");
}

fn hold_release_priority_tags_replay_remove(stand: &Stand) {
    let id = stand.submit(["x", "--tag", "old=1"]);
    assert!(stand.ok(["hold", &id, "--cause", "later"]).contains("held by ada: later"));
    assert_eq!(stand.json(["release", &id])["reason"], "waiting_for_worker");
    assert_eq!(stand.json(["priority", &id, "-7"])["priority"], -7);
    let tags = &stand.json(["tag", &id, "team.name=a", "old-"])["tags"];
    assert_eq!(tags.to_string(), "{\"team.name\":\"a\"}");

    // Not possible in this state: exit code 4, with a hint.
    for (command, want) in
        [("replay", "only after it has ended"), ("remove", "only after"), ("revoke", "no lease")]
    {
        let said = stand.run([command, &id]);
        assert_eq!(said.code, 4, "{said:?}");
        assert!(said.err.contains(want) && said.err.contains("hint: "), "{said:?}");
    }
    stand.ok(["cancel", &id]);
    assert_eq!(stand.run(["priority", &id, "1"]).code, 4);
    assert_eq!(stand.json(["replay", &id])["state"], "waiting");
    stand.ok(["cancel", &id]);
    assert_eq!(stand.json(["remove", &id])["removed"], true);
    assert_eq!(stand.run(["get", &id]).code, 3);
}

fn lanes_pause_drain_and_are_set(stand: &Stand) {
    assert_eq!(stand.json(["lane", "pause", "billing"])["mode"], "paused");
    stand.submit(["x", "--lane", "billing"]);
    stand.ok(["lane", "drain", "billing"]);
    let said = stand.run(["submit", "x", "--lane", "billing"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("lane billing is draining"), "{said:?}");
    assert_eq!(stand.json(["lane", "set", "billing", "--strict", "--retention", "30d"])["strict"], true);
    assert_eq!(stand.json(["lane", "resume", "billing"])["mode"], "open");
    let lanes = stand.json(["lane", "list"]);
    assert_eq!(
        (&lanes["lanes"][0]["name"], lanes["lanes"][0]["open"].as_u64()),
        (&"billing".into(), Some(1))
    );
    assert!(stand.ok(["lane", "list"]).contains("strict"));
    assert_eq!(stand.run(["lane", "set", "billing"]).code, 2);
}
