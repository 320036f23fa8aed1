//! Single things: one lane, one worker, one token, one namespace, one edge; and what is asked for until it is there.

use std::time::Duration;

use flowfabric::{Context, Worker};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::stand::{Stand, on_every_store};

const NOBODY: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";

on_every_store! {
    a_lane_and_a_namespace_are_shown_also_if_nobody_has_used_them,
    a_token_is_shown_without_its_secret,
    the_edge_between_two_nodes_is_shown,
    workers_are_looked_after_under_both_names,
    the_newest_output_comes_first_if_it_is_asked_for,
    who_waits_for_a_waitpoint_is_told_of_the_first,
}

fn a_lane_and_a_namespace_are_shown_also_if_nobody_has_used_them(stand: &Stand) {
    stand.submit(["x", "--lane", "billing", "--namespace", "ours"]);
    stand.ok(["lane", "pause", "billing", "--cause", "the bank is closed"]);
    let lane = stand.json(["lane", "get", "billing"]);
    assert_eq!((&lane["mode"], &lane["open"]), (&"paused".into(), &1.into()));
    assert!(stand.ok(["lane", "get", "billing"]).contains("the bank is closed"));
    let unused = stand.json(["lane", "get", "other"]);
    assert_eq!((&unused["mode"], &unused["open"], &unused["actor"]), (&"open".into(), &0.into(), &"".into()));
    assert_eq!(stand.run(["lane", "get", ""]).code, 2);

    let ours = json!({ "name": "ours", "executions": 1, "states": { "waiting": 1 } });
    assert_eq!(stand.json(["namespaces", "ours"]), ours);
    assert_eq!(stand.json(["namespaces", "theirs"])["executions"], 0);
    let table = stand.ok(["namespaces", "ours"]);
    assert!(table.contains("1 waiting") && table.lines().count() == 2, "{table}");
    assert_eq!(stand.run(["namespaces", "Ours"]).code, 2);
}

fn a_token_is_shown_without_its_secret(stand: &Stand) {
    let made = stand.json(["token", "create", "billing", "--role", "worker", "--namespace", "ours"]);
    let (id, secret) = (made["token"]["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(stand.json(["token", "get", id])["token"], made["token"]);
    let shown = stand.ok(["token", "get", id]);
    assert!(shown.contains("billing") && shown.contains("ours") && !shown.contains(secret), "{shown}");
    let none = stand.run(["token", "get", "tok_0"]);
    assert!(none.code == 3 && none.err.contains("flowfabric token list"), "{none:?}");
}

fn the_edge_between_two_nodes_is_shown(stand: &Stand) {
    let file =
        "kind: etl\nnodes:\n  extract: { kind: step }\n  load: { kind: step, inputs: { rows: extract } }\n";
    stand.write("etl.yaml", file);
    let id = stand.ok(["flow", "submit", "etl.yaml"]);
    let edge = stand.json(["flow", "edges", &id, "load", "--from", "extract"]);
    let listed = stand.json(["flow", "edges", &id, "load"]);
    assert_eq!((&edge, &edge["field"]), (&listed["edges"][0], &"rows".into()));
    assert!(stand.ok(["flow", "edges", &id, "load", "--from", "extract"]).contains("rows"));
    assert_eq!(stand.run(["flow", "edges", &id, "extract", "--from", "load"]).code, 3);
    assert_eq!(stand.run(["flow", "edges", &id, "load", "--from", "extract", "--out"]).code, 2);
}

fn workers_are_looked_after_under_both_names(stand: &Stand) {
    let id = stand.submit(["x", "--attempts", "1"]);
    Runtime::new().unwrap().block_on(async {
        let fabric = flowfabric::connect(&stand.url()).await.unwrap();
        let worker = Worker::new(&fabric).name("doomed").on("x", |ctx: Context, (): ()| async move {
            match ctx.attempt() {
                1 => std::future::pending::<Result<u32, flowfabric::TaskFailure>>().await,
                attempt => Ok(attempt),
            }
        });
        let run = fabric.run(id.parse().unwrap());
        let told = async {
            let mut states = run.watch().await.unwrap();
            while states.next().await.unwrap().unwrap().public_state().word() != "active" {}
            bury(stand);
            run.wait().await.unwrap()
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let working = worker.grace(Duration::ZERO).run_until(async { drop(stopped.await) });
        let ended = async {
            let ended = told.await;
            drop(stop);
            ended
        };
        let (_, ended) = tokio::join!(working, ended);
        assert_eq!(ended.execution.public_state().word(), "completed");
        fabric.shutdown(Duration::from_secs(5)).await;
    });
    let attempts = stand.json(["get", &id, "--attempts"]);
    assert_eq!((&attempts["attempts"][0]["outcome"], &attempts["result"]), (&"lease_lost".into(), &2.into()));
    assert_eq!(stand.run(["worker", "get", NOBODY]).code, 3);
    assert_eq!(stand.run(["worker", "drain", NOBODY]).code, 3);
}

/// Drains the only worker and declares it dead.
fn bury(stand: &Stand) {
    let workers = stand.json(["worker", "list"]);
    assert_eq!(workers, stand.json(["workers", "list"]));
    let worker = &workers["workers"][0];
    assert_eq!((&worker["name"], &worker["holds"]), (&"doomed".into(), &1.into()), "{workers}");
    let instance = worker["instance"].as_str().unwrap();
    assert_eq!(stand.json(["worker", "get", instance]), *worker);
    let buried = stand.json(["workers", "bury", instance, "--cause", "the machine burnt"]);
    assert_eq!(buried, json!({ "instance": instance, "mode": "dead" }));
    let shown = stand.ok(["worker", "get", instance]);
    assert!(shown.contains("dead") && shown.contains("the machine burnt"), "{shown}");
}

/// Runs `write` in this process until it has ended.
fn write(stand: &Stand) -> String {
    let id = stand.submit(["write"]);
    Runtime::new().unwrap().block_on(async {
        let fabric = flowfabric::connect(&stand.url()).await.unwrap();
        let worker = Worker::new(&fabric).on("write", |ctx: Context, (): ()| async move {
            for word in ["one", "two", "three"] {
                ctx.emit("word", word).await?;
            }
            Ok(())
        });
        let run = fabric.run(id.parse().unwrap());
        worker.run_until(async { drop(run.wait().await.unwrap()) }).await.unwrap();
        fabric.shutdown(Duration::from_secs(5)).await;
    });
    id
}

fn the_newest_output_comes_first_if_it_is_asked_for(stand: &Stand) {
    let id = write(stand);
    let newest = stand.ok(["stream", &id, "--newest-first", "--limit", "2"]);
    assert_eq!(newest, "1:3  word  three\n1:2  word  two");
    let before = stand.ok(["--json", "stream", &id, "--newest-first", "--after", "1:2"]);
    let before: Value = serde_json::from_str(&before).unwrap();
    assert_eq!((&before["text"], &before["place"]), (&"one".into(), &"1:1".into()));
    let oldest = stand.ok(["stream", &id, "--limit", "2"]);
    assert!(oldest.starts_with("1:1 ") && oldest.lines().count() == 2, "{oldest}");
    assert_eq!(stand.ok(["stream", &id, "--attempt", "1", "--limit", "2"]), oldest);
    assert_eq!(stand.ok(["stream", &id, "--attempt", "1", "--newest-first", "--limit", "2"]), newest);
    assert_eq!(stand.ok(["stream", &id, "--attempt", "2"]), "");
    assert_eq!(stand.run(["stream", &id, "--attempt", "1", "--after", "1:1"]).code, 2);
    assert_eq!(stand.run(["stream", &id, "--attempt", "0"]).code, 2);
    assert_eq!(stand.run(["stream", &id, "--newest-first", "--follow"]).code, 2);
    assert_eq!(stand.run(["stream", NOBODY, "--newest-first"]).code, 3);
}

fn who_waits_for_a_waitpoint_is_told_of_the_first(stand: &Stand) {
    let id = stand.submit(["refund"]);
    let none = stand.run(["waitpoint", "list", "--wait", "--timeout", "10ms"]);
    assert!(none.code == 124 && none.err.contains("no waitpoint was opened in time"), "{none:?}");
    assert_eq!(stand.run(["waitpoint", "list", "--timeout", "10ms"]).code, 2);
    let wait = ["waitpoint", "list", "--name", "approval", "--wait", "--timeout", "50s", "--json"];
    let mut waiting = stand.command(wait);
    let waiting = waiting.stdout(std::process::Stdio::piped()).spawn().unwrap();
    Runtime::new().unwrap().block_on(async {
        let fabric = flowfabric::connect(&stand.url()).await.unwrap();
        let worker = Worker::new(&fabric).on("refund", |ctx: Context, (): ()| async move {
            let approval = ctx.waitpoint("approval").await?;
            Ok(approval.wait::<bool>().await?.payload)
        });
        let told = async {
            let said = tokio::task::spawn_blocking(|| waiting.wait_with_output().unwrap()).await.unwrap();
            assert!(said.status.success());
            let page: Value = serde_json::from_slice(&said.stdout).unwrap();
            assert_eq!(page["waitpoints"][0]["waitpoint"], format!("{id}-1"));
        };
        worker.run_until(told).await.unwrap();
        fabric.shutdown(Duration::from_secs(5)).await;
    });
}
