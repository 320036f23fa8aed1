//! The demonstration ends by itself and says what happened.

use serde_json::json;

use crate::stand::Stand;

#[test]
fn the_demonstration_prints_one_document_with_the_counts() {
    let stand = Stand::new();
    let shown = stand.json(["demo", "--keep", "kept"]);
    assert_eq!(shown["ok"], true, "{shown:#}");
    let counts = &shown["counts"];
    for (name, want) in [
        ("submitted", 283),
        ("completed", 275),
        ("failed", 1),
        ("cancelled", 4),
        ("expired", 2),
        ("skipped", 1),
        ("retries", 13),
        ("leases_lost", 4),
        ("recovered", 4),
    ] {
        assert_eq!(counts[name], want, "{name}");
    }
    let flow = shown["parts"].as_array().unwrap().iter().find(|it| it["part"] == "flow").unwrap();
    assert_eq!(flow["facts"]["cancelled_losers"], json!(["mirror-4", "mirror-5"]), "{flow:#}");
    assert_eq!(flow["facts"]["retried"], json!(["mirror-2"]));
    assert_eq!(flow["facts"]["nodes"]["publish"], "completed");
    let url = shown["store"].as_str().unwrap();
    let drawn = stand.ok(["--store", url, "flow", "graph", flow["facts"]["id"].as_str().unwrap()]);
    assert!(drawn.contains("3 of 5 ◀ mirror-1 ✔, mirror-2 ✔, mirror-3 ✔, mirror-4 ⊘, mirror-5 ⊘"), "{drawn}");
    assert_eq!(stand.json(["--store", url, "list", "--count"])["count"], 283);

    let again = stand.run(["demo", "--keep", "kept"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("exists already"), "{again:?}");
}

#[test]
fn people_see_it_progress_and_what_to_try_next() {
    let said = Stand::new().run(["demo"]);
    assert_eq!(said.code, 0, "{said:?}");
    for line in [
        "was killed (SIGKILL)",
        "recovered",
        "urgent",
        "deadline",
        "third try",
        "cancelled",
        "mirrors agreed",
        "was not run again",
        "granted with a signed token",
    ] {
        assert!(said.err.contains(line), "{line}: {}", said.err);
    }
    assert!(said.out.contains("↷ alarm"), "the flow is drawn: {}", said.out);
    assert!(said.out.contains("283 executions") && said.out.contains("Try next:"), "{}", said.out);
}
