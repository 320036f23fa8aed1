//! The demonstration ends by itself and says what happened.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::stand::{Background, Said, Stand};

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
fn it_plays_on_a_store_that_is_named_on_the_command_line_and_on_no_other() {
    let stand = Stand::new();
    let shown = stand.json(["demo", "--store", "sqlite:named.db"]);
    assert_eq!((&shown["ok"], &shown["store"]), (&json!(true), &json!("sqlite:named.db")));
    assert_eq!(stand.json(["--store", "sqlite:named.db", "list", "--count"])["count"], 283);
    let again = stand.run(["demo", "--store", "sqlite:named.db"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.err.contains("needs an empty store"), "{again:?}");
    let both = stand.run(["demo", "--store", "sqlite:other.db", "--keep", "kept"]);
    assert_eq!(both.code, 2, "{both:?}");
    assert!(both.err.contains("not both"), "{both:?}");

    // What the environment names is for everyday work.
    let everyday = stand.command(["demo"]).env("FLOWFABRIC_STORE", "sqlite:everyday.db").output().unwrap();
    assert!(everyday.status.success(), "{everyday:?}");
    for name in ["other.db", "everyday.db", "kept", "flowfabric.db"] {
        assert!(!stand.path(name).exists(), "{name}");
    }
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

#[test]
fn what_was_demonstrated_can_be_looked_at_through_a_server() {
    let stand = Stand::new();
    let mut command = stand.command(["--json", "demo", "--serve", "--listen", "127.0.0.1:0"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let server = Background::from(child);
    let listening = |line: String| {
        let said: Value = serde_json::from_str(&line).ok()?;
        Some(said.get("listening")?.as_str()?.to_owned())
    };
    let url = lines.into_iter().find_map(listening).unwrap();
    assert_eq!(stand.json(["--server", &url, "list", "--count"])["count"], 283);
    let said = server.terminate();
    assert_eq!(said.code, 0, "{said:?}");

    let refused = stand.run(["demo", "--serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--auth"), "{refused:?}");
}

#[test]
fn what_has_a_store_of_its_own_is_not_asked_of_a_server() {
    let stand = Stand::new();
    for args in [&["demo"][..], &["bench", "--scenario", "submit"]] {
        let said = stand.run(args.iter().copied().chain(["--server", "http://127.0.0.1:1"]));
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert!(said.err.contains("leave out --server; --store says which"), "{said:?}");
    }
    let mut here = stand.command(["demo", "--here"]);
    let said: Said = here.env("FLOWFABRIC_SERVER", "http://127.0.0.1:1").output().unwrap().into();
    assert!(said.code == 2 && said.err.contains("not through a server"), "{said:?}");
}
