//! Bad input: a clear error that names the field and what is allowed, nothing stored, an exit code that is not 0.

use rusqlite::Connection;

use crate::stand::{Said, Stand};

#[track_caller]
fn check(said: &Said, code: i32, wants: &[&str]) {
    assert_eq!(said.code, code, "{said:?}");
    assert_eq!(said.out, "", "{said:?}");
    assert!(said.err.starts_with("error: "), "{said:?}");
    for want in wants {
        assert!(said.err.contains(want), "{want}: {said:?}");
    }
}

#[test]
fn values_that_do_not_fit_are_named_with_what_is_allowed() {
    let stand = Stand::new();
    let long = "x".repeat(65);
    let cases: &[(&[&str], &[&str])] = &[
        (&["--lane", ""], &["lane has 0 bytes; allowed are 1 to 64"]),
        (&["--lane", &long], &["lane has 65 bytes; allowed are 1 to 64"]),
        (&["--lane", "a\nb"], &["lane contains '\\n'; allowed are printable characters"]),
        (&["--namespace", "Acme"], &["namespace contains 'A'; allowed are lower-case"]),
        (&["--tag", "Team=x"], &["tags has the key \"Team\"; allowed are at most 64 bytes"]),
        (&["--tag", "nothing"], &["--tag", "key=value"]),
        (&["--capability", "a b"], &["capability contains ' '; allowed are"]),
        (&["--capability", &"x".repeat(257)], &["capability has 257 bytes; allowed are 1 to 256"]),
        (&["--priority", "101"], &["priority is 101; allowed are -100 to 100"]),
        (&["--attempts", "0"], &["max_attempts is 0; allowed are 1 to 1000"]),
        (&["--attempts", "-1"], &["attempts is -1; allowed are 1 to 1000"]),
        (&["--backoff-factor", "0.5"], &["backoff.factor is 0.5; allowed are 1 to 100"]),
        (&["--lease", "1ms"], &["lease_ms is 1; allowed are 100 to"]),
        (&["--key", ""], &["idempotency_key is empty"]),
        (&["--delay", "-5m"], &["--delay", "allowed are durations such as"]),
        (&["--delay", "soon"], &["--delay", "allowed are durations such as"]),
        (&["--delay", "99999d"], &["run_at is", "allowed are 0 to"]),
        (&["--run-at", "-5"], &["--run-at", "negative", "allowed are RFC 3339"]),
        (&["--run-at", "tomorrow"], &["--run-at", "allowed are RFC 3339"]),
        (&["--deadline", "-1s"], &["--deadline", "allowed are RFC 3339"]),
        (
            &["--deadline", "2020-01-01T00:00:00Z"],
            &["deadline is 2020-01-01T00:00:00.000Z, which has passed"],
        ),
        (&["--deadline", "5m", "--delay", "1h"], &["deadline is", "before the start", "it would never run"]),
        (&["--input", "{oops"], &["input is not JSON", "hint: "]),
        (&["--input-file", "missing.json"], &["input-file: cannot read missing.json"]),
        (&["--count", "0"], &["--count", "1..=10000000"]),
        (&["--count", "2", "--key", "k"], &["--count", "--key"]),
        (&["--frobnicate"], &["--frobnicate"]),
    ];
    for (args, wants) in cases {
        let said = stand.run(["submit", "x"].into_iter().chain(args.iter().copied()));
        check(&said, 2, wants);
    }
    check(&stand.run(["submit", "a b"]), 2, &["kind contains ' '; allowed are"]);
    assert_eq!(stand.stored(), 0);
}

#[test]
fn too_much_input_is_refused_wherever_it_comes_from() {
    let stand = Stand::new();
    let text = format!("\"{}\"", "x".repeat(4 << 20));
    stand.write("large.json", &text);
    let wants = ["input has", "bytes; allowed are at most 4194304"];
    check(&stand.run(["submit", "x", "--input-file", "large.json"]), 2, &wants);
    check(&stand.shell("$FF submit x - < large.json"), 2, &wants);
    check(&stand.shell("cat /dev/zero | $FF submit x - --content-type text/plain"), 2, &wants);
    assert_eq!(stand.stored(), 0);
}

#[test]
fn other_commands_check_their_values_too() {
    let stand = Stand::new();
    let id = stand.submit(["x"]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["get", "banana"], &["banana", "expected a UUID"]),
        (&["list", "--state", "done"], &["--state", "allowed are waiting, delayed"]),
        (&["list", "--reason", "why"], &["--reason", "allowed are waiting_for_worker"]),
        (&["list", "--limit", "0"], &["limit is 0; allowed are 1 to 1000"]),
        (&["list", "--cursor", "x"], &["cursor is not one that came with a page"]),
        (&["list", "--since", "-1h"], &["--since", "allowed are"]),
        (&["tail", "--from", "c1.x"], &["--from", "not a cursor"]),
        (&["tail", "--from", "here"], &["--from", "allowed are beginning, now"]),
        (&["tail", "--family", "x"], &["--family", "allowed are execution, lease, flow, signal, operator"]),
        (&["priority", &id, "101"], &["priority is 101; allowed are -100 to 100"]),
        (&["tag", &id, "a"], &["key=value sets a tag"]),
        (&["tag", &id, "A=1"], &["tags has the key \"A\""]),
        (&["cancel", &id, "--grace", "-1s"], &["--grace", "allowed are durations"]),
        (&["lane", "pause", ""], &["lane has 0 bytes"]),
        (&["completions", "tcl"], &["tcl", "bash"]),
    ];
    for (args, wants) in cases {
        check(&stand.run(args.iter().copied()), 2, wants);
    }
    let said = stand.run(["--json", "submit", "x", "--lane", ""]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"]["code"], "invalid");
    assert_eq!(error["error"]["message"], "lane has 0 bytes; allowed are 1 to 64");
    let said = stand.run(["--json", "submit", "x", "--delay", "soon"]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"]["code"], "usage");
    assert_eq!(stand.stored(), 1);
}

#[test]
fn a_nonsense_url_is_refused_with_what_is_supported() {
    let stand = Stand::new();
    for url in ["", "jobs.db", "foo://bar", "sqlite:", "memory:x", "mysql://localhost/x", "sqlite:a?x=y"] {
        check(
            &stand.run(["--store", url, "submit", "x"]),
            2,
            &["this build supports sqlite:PATH", "hint: set --store"],
        );
    }
    let said = stand.run(["--store", "postgres://ada:secret@127.0.0.1/x?sslmode=maybe", "submit", "x"]);
    check(&said, 2, &["sslmode=maybe", "hint: set --store"]);
    assert!(!said.err.contains("secret"), "{said:?}");
    check(
        &stand.run(["--store", "sqlite:no/such/folder/a.db", "submit", "x"]),
        1,
        &["folder does not exist"],
    );
    check(&stand.run(["--store", "sqlite:.", "submit", "x"]), 1, &["cannot be opened"]);
}

#[test]
fn a_newer_schema_is_refused() {
    let stand = Stand::new();
    stand.submit(["x"]);
    Connection::open(stand.path("flowfabric.db")).unwrap().pragma_update(None, "user_version", 999).unwrap();
    check(&stand.run(["submit", "x"]), 1, &["has schema 999", "use a newer flowfabric"]);
}

#[test]
fn a_file_of_somebody_else_and_a_damaged_file_are_refused_and_left_alone() {
    let stand = Stand::new();
    let garbage = b"this is not a database, it only looks like a file ".repeat(100);
    stand.write("flowfabric.db", &garbage);
    check(&stand.run(["submit", "x"]), 1, &["is not an SQLite database"]);
    assert_eq!(std::fs::read(stand.path("flowfabric.db")).unwrap(), garbage);

    let other = stand.path("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    check(
        &stand.run(["--store", "sqlite:other.db", "submit", "x"]),
        1,
        &["a database of another application"],
    );

    let damaged = Stand::new();
    damaged.submit(["x", "--count", "200"]);
    let path = damaged.path("flowfabric.db");
    // So that everything is in the file itself.
    let conn = Connection::open(&path).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(conn);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    check(&damaged.run(["submit", "x"]), 1, &["is damaged", "restore a backup"]);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_locked_file_is_unavailable_and_works_again_afterwards() {
    let stand = Stand::new();
    stand.submit(["x"]);
    let holder = Connection::open(stand.path("flowfabric.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    check(&stand.run(["submit", "x"]), 5, &["is locked", "hint: this was not carried out"]);
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    assert_eq!(stand.stored(), 1);
    stand.submit(["x"]);
}

/// Runs a script on a file system of its own, of two megabytes, mounted at `small`.
fn on_a_small_disk(stand: &Stand, script: &str) -> Said {
    stand.shell(&format!(
        "mkdir -p small && unshare -rm sh -c 'mount -t tmpfs -o size=2m none small && {script}'"
    ))
}

#[test]
fn a_full_disk_is_unavailable_and_nothing_is_stored() {
    let stand = Stand::new();
    stand.write("large.txt", "x".repeat(3_000_000));
    let submit = "$FF --log off --patience 200ms --store sqlite:small/a.db submit x --input-file large.txt --content-type text/plain";
    let small = on_a_small_disk(&stand, "true");
    assert_eq!(small.code, 0, "this test needs `unshare -rm` and tmpfs to have a full disk: {small:?}");
    let said = on_a_small_disk(&stand, submit);
    check(&said, 5, &["its disk or its size limit is full", "nothing was written"]);
    let script = format!("{submit}; $FF --store sqlite:small/a.db list --count");
    assert_eq!(on_a_small_disk(&stand, &script).out, "0");
    // A limit on the size of files ends writes in another way.
    let limited = submit.replace("small/", "");
    let said = stand.shell(&format!("trap '' XFSZ; ulimit -f 2048; exec {limited}"));
    check(&said, 5, &["hint: "]);
    assert_eq!(stand.json(["--store", "sqlite:a.db", "list", "--count"])["count"], 0);
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    let stand = Stand::new();
    let is_root = stand.shell("id -u").out == "0";
    // Permissions do not stop root; a file system that is mounted read-only does.
    let said = if is_root {
        let store = "$FF --store sqlite:small/a.db submit x";
        on_a_small_disk(&stand, &format!("{store} > /dev/null && mount -o remount,ro small && {store}"))
    } else {
        stand.submit(["x"]);
        stand.shell(
            "chmod 0444 flowfabric.db && chmod 0555 . && $FF submit x; code=$?; chmod 0755 .; exit $code",
        )
    };
    check(&said, 1, &["this process", "write"]);
}
