//! A worker in one process, submissions in others, on the same file.

use std::fs;

use crate::stand::{Stand, on_every_store};

const WAIT: [&str; 3] = ["--wait", "--timeout", "50s"];

on_every_store! {
    a_program_gets_the_input_and_gives_the_result,
    the_program_knows_what_it_runs_and_text_becomes_a_json_text,
    the_exit_code_decides,
    a_cancel_stops_the_program,
    a_program_has_time_to_tidy_up,
    a_worker_that_stops_ends_its_programs_and_gives_the_work_back,
    an_operator_drains_a_worker,
    a_worker_with_a_setting_that_does_not_fit_does_not_start,
}

fn a_program_gets_the_input_and_gives_the_result(stand: &Stand) {
    let early = stand.submit(["greet", "--input", "{\"name\":\"Ada\"}"]);
    let worker = stand.worker(["--kind", "greet", "--exec", "cat", "--name", "cat-1"]);
    assert_eq!(stand.run(["watch", &early, "--timeout", "50s"]).code, 0);
    let got = stand.json(["get", &early, "--attempts"]);
    assert_eq!(got["result"].to_string(), "{\"name\":\"Ada\"}");
    assert_eq!(got["attempts"][0]["worker"], "cat-1");
    assert_eq!(got["attempts"][0]["outcome"], "completed");
    let workers = stand.json(["workers", "list"]);
    assert_eq!(workers["workers"][0]["name"], "cat-1");

    let args = ["greet", "-", "--wait", "--timeout", "50s"];
    let result = stand.shell(&format!("echo '[1,2,3]' | $FF submit {}", args.join(" ")));
    assert_eq!((result.code, result.out.as_str()), (0, "[1,2,3]"), "{result:?}");

    let tail = stand.ok(["tail", "--from", "beginning", "--execution", &early, "--limit", "4"]);
    assert!(
        tail.contains("created") && tail.contains("lease_acquired") && tail.contains("completed"),
        "{tail}"
    );
    let said = worker.terminate();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("worker stopped: 2 completed, 0 failed"), "{said:?}");
    assert_eq!(stand.json(["workers", "list"])["workers"].to_string(), "[]");
}

fn the_program_knows_what_it_runs_and_text_becomes_a_json_text(stand: &Stand) {
    let exec = "echo $FLOWFABRIC_KIND $FLOWFABRIC_LANE $FLOWFABRIC_ATTEMPT $FLOWFABRIC_EXECUTION";
    let _worker = stand.worker(["--kind", "env", "--lane", "side", "--exec", exec]);
    let done = stand.json(["submit", "env", "--lane", "side"].into_iter().chain(WAIT));
    let id = done["id"].as_str().unwrap();
    assert_eq!(done["result"], format!("env side 1 {id}"));
}

fn the_exit_code_decides(stand: &Stand) {
    // The input is the shell script that the program runs.
    let _worker = stand.worker(["--kind", "sh", "--exec", "eval \"$(tr -d '\\\"')\"", "--later", "10ms"]);
    let run = |script: &str| {
        let input = format!("\"{script}\"");
        let args = ["--json", "submit", "sh", "--attempts", "2", "--backoff", "1ms", "--input", &input];
        let said = stand.run(args.into_iter().chain(WAIT));
        let value: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
        (said.code, value)
    };
    let (code, failed) = run("echo out of paper >&2; exit 3");
    assert_eq!((code, failed["reason"].as_str()), (6, Some("attempts_exhausted")));
    assert_eq!(failed["attempts_spent"], 2);
    assert_eq!(
        (failed["error"]["code"].as_str(), failed["error"]["message"].as_str()),
        (Some("exit_3"), Some("out of paper"))
    );

    let (code, fatal) = run("echo bad order >&2; exit 65");
    assert_eq!(
        (code, fatal["reason"].as_str(), fatal["attempts_spent"].as_u64()),
        (6, Some("fatal_error"), Some(1))
    );

    let (code, later) = run("if [ -e mark ]; then echo 7; else touch mark; exit 75; fi");
    assert_eq!((code, later["result"].as_u64(), later["attempts_spent"].as_u64()), (0, Some(7), Some(1)));

    let (code, killed) = run("kill -9 $$");
    assert_eq!((code, killed["error"]["code"].as_str()), (6, Some("signal_9")));

    let (code, large) = run("head -c 5000000 /dev/zero; echo never");
    assert_eq!((code, large["error"]["code"].as_str()), (6, Some("bad_result")));
    let message = large["error"]["message"].as_str().unwrap();
    assert!(message.contains("allowed are at most 4194304"), "{message}");
}

/// The program says through named pipes that it runs, and that it was told to stop.
const STOPPABLE: &str =
    "trap 'echo stopped > ended; exit 1' TERM; echo running > started; while :; do sleep 0.05; done";

fn a_cancel_stops_the_program(stand: &Stand) {
    assert_eq!(stand.shell("mkfifo started ended").code, 0);
    let _worker = stand.worker(["--kind", "long", "--exec", STOPPABLE]);
    for grace in [None, Some("20s")] {
        let id = stand.submit(["long"]);
        assert_eq!(fs::read_to_string(stand.path("started")).unwrap(), "running\n");
        let args = ["cancel", &id].into_iter().chain(grace.into_iter().flat_map(|time| ["--grace", time]));
        stand.ok(args);
        assert_eq!(fs::read_to_string(stand.path("ended")).unwrap(), "stopped\n");
        assert_eq!(stand.run(["watch", &id, "--timeout", "50s"]).code, 6);
        assert_eq!(stand.json(["get", &id])["state"], "cancelled");
    }
}

fn a_program_has_time_to_tidy_up(stand: &Stand) {
    let script = "#!/bin/sh\ntrap 'echo \\\"tidied\\\"; exit 0' TERM\necho running > started\nwhile :; do sleep 0.05; done\n";
    fs::write(stand.path("long.sh"), script).unwrap();
    assert_eq!(stand.shell("mkfifo started; chmod +x long.sh").code, 0);
    let _worker = stand.worker(["--kind", "long", "--exec", "./long.sh"]);
    let id = stand.submit(["long"]);
    assert_eq!(fs::read_to_string(stand.path("started")).unwrap(), "running\n");
    stand.ok(["cancel", &id, "--grace", "20s"]);
    assert_eq!(stand.run(["watch", &id, "--timeout", "50s"]).code, 0);
    assert_eq!(stand.json(["get", &id])["result"], "tidied");
}

fn a_worker_that_stops_ends_its_programs_and_gives_the_work_back(stand: &Stand) {
    assert_eq!(stand.shell("mkfifo started ended").code, 0);
    let worker = stand.worker(["--kind", "long", "--exec", STOPPABLE, "--grace", "10ms"]);
    let id = stand.submit(["long"]);
    assert_eq!(fs::read_to_string(stand.path("started")).unwrap(), "running\n");
    let ended = stand.path("ended");
    let reader = std::thread::spawn(move || fs::read_to_string(ended).unwrap());
    let said = worker.terminate();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("1 given back"), "{said:?}");
    assert_eq!(reader.join().unwrap(), "stopped\n");
    let got = stand.json(["get", &id, "--attempts"]);
    assert_eq!((got["state"].as_str(), got["attempts_spent"].as_u64()), (Some("waiting"), Some(0)));
    assert_eq!(got["attempts"][0]["outcome"], "released");
}

fn an_operator_drains_a_worker(stand: &Stand) {
    let worker = stand.worker(["--kind", "greet", "--exec", "cat"]);
    stand.ok(["submit", "greet"].into_iter().chain(WAIT));
    let workers = stand.json(["workers", "list"]);
    let instance = workers["workers"][0]["instance"].as_str().unwrap();
    assert_eq!(stand.json(["workers", "drain", instance])["mode"], "draining");
    let said = worker.wait();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("drained by an operator"), "{said:?}");
}

fn a_worker_with_a_setting_that_does_not_fit_does_not_start(stand: &Stand) {
    let said = stand.run(["worker", "--kind", "a b", "--exec", "cat"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("kind contains ' '"), "{said:?}");
    for (option, value, want) in [
        ("--lane", "", "lane has 0 bytes"),
        ("--capability", "a,b", "capability contains ','"),
        ("--concurrency", "0", "allowed are 1 to 10000"),
        ("--name", "a b", "worker contains ' '"),
        ("--grace", "-1s", "allowed are durations"),
    ] {
        let said = stand.run(["worker", "--kind", "a", "--exec", "cat", option, value]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(want), "{said:?}");
    }
}
