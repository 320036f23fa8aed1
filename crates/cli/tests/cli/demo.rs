//! The demonstration ends by itself and says what happened.

use crate::stand::Stand;

#[test]
fn the_demonstration_prints_one_document_with_the_counts() {
    let stand = Stand::new();
    let shown = stand.json(["demo", "--keep", "kept"]);
    assert_eq!(shown["ok"], true, "{shown:#}");
    let counts = &shown["counts"];
    for (name, want) in [
        ("submitted", 273),
        ("completed", 268),
        ("failed", 1),
        ("cancelled", 2),
        ("expired", 2),
        ("retries", 12),
        ("leases_lost", 4),
        ("recovered", 4),
    ] {
        assert_eq!(counts[name], want, "{name}");
    }
    let url = shown["store"].as_str().unwrap();
    assert_eq!(stand.json(["--store", url, "list", "--count"])["count"], 273);

    let again = stand.run(["demo", "--keep", "kept"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("exists already"), "{again:?}");
}

#[test]
fn people_see_it_progress_and_what_to_try_next() {
    let said = Stand::new().run(["demo"]);
    assert_eq!(said.code, 0, "{said:?}");
    for line in ["was killed (SIGKILL)", "recovered", "urgent", "deadline", "third try", "cancelled"] {
        assert!(said.err.contains(line), "{line}: {}", said.err);
    }
    assert!(said.out.contains("273 executions") && said.out.contains("Try next:"), "{}", said.out);
}
