//! Other processes: killed at any moment, they leave a good file, and their death is noticed.
//!
//! A child is this test binary again, asked for the one test that plays the part named in the environment.

use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use ff_core::PartitionId;
use ff_store::{Outcome, Store, Version, Written};
use ff_store_sqlite::{Options, SqliteStore};

use crate::desk::Desk;

const PART: &str = "FF_TEST_PART";
const FILE: &str = "FF_TEST_FILE";

fn start(part: &str, file: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "children::plays_its_part", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// What the child said: lines with this mark, so that the test runner's own are not taken for them.
fn said(line: &str) -> Option<&str> {
    line.split_once("@ ").map(|(_, said)| said)
}

fn next_said(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    loop {
        let line = lines.next().expect("the child ended early").unwrap();
        if let Some(said) = said(&line) {
            return said.to_owned();
        }
    }
}

#[tokio::test]
async fn plays_its_part() {
    let (Ok(part), Ok(file)) = (std::env::var(PART), std::env::var(FILE)) else { return };
    let options = Options { partitions: Some(2), ..Options::default() };
    let store = SqliteStore::open(file, options).unwrap();
    match part.as_str() {
        "commit" => commit_for_ever(&store).await,
        "open" => println!("@ {}", store.info().id),
        server => {
            store.beat(server.to_owned()).await.unwrap();
            println!("@ entered");
            // Until the parent lets go or kills.
            let _ = std::io::stdin().read(&mut [0]);
        }
    }
}

async fn commit_for_ever(store: &SqliteStore) {
    let mut desks = [Desk::new(0, 2), Desk::new(1, 2)];
    let workers = [desks[0].worker(), desks[1].worker()];
    loop {
        for (desk, worker) in desks.iter_mut().zip(workers) {
            for _ in 0..20 {
                desk.create();
            }
            let fences = desk.claim(worker, 10);
            fences.into_iter().for_each(|fence| desk.complete(fence));
        }
        let commits = desks.iter_mut().map(Desk::commit).collect();
        for outcome in store.commit(commits).await {
            assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        }
        for (partition, desk) in desks.iter().enumerate() {
            println!("@ {partition} {} {}", desk.version.number, desk.version.id);
        }
    }
}

#[tokio::test]
async fn whatever_was_acknowledged_survives_a_kill_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let file = folder.path().join(format!("{round}.db"));
        let (mut child, mut lines) = start("commit", &file);
        let mut acknowledged: Vec<(PartitionId, Version)> = Vec::new();
        let mut learn = |line: &str| {
            let mut words = line.split(' ');
            let partition = PartitionId(words.next()?.parse().ok()?);
            let number = words.next()?.parse().ok()?;
            // A line cut off by the kill has no whole id.
            let id = words.next()?.parse().ok()?;
            acknowledged.push((partition, Version { number, id }));
            Some(())
        };
        for _ in 0..(10 + 67 * round) {
            learn(&next_said(&mut lines));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had said before the end counts as well.
        lines.map_while(Result::ok).for_each(|line| _ = said(&line).and_then(&mut learn));

        let store = SqliteStore::open(&file, Options::default()).unwrap();
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        for (partition, version) in acknowledged {
            let written = store.written(partition, version.number).await.unwrap();
            assert_eq!(written, Written::By(version.id), "partition {partition}, {version:?}");
        }
        assert_whole(&store, &file).await;
    }
}

/// Counters agree with records, and events have no gaps: a commit is there whole or not at all.
async fn assert_whole(store: &SqliteStore, file: &Path) {
    let raw = rusqlite::Connection::open(file).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let counted: u64 = store.counts().await.unwrap().iter().map(|(_, n)| n).sum();
    assert_eq!(count("SELECT count(*) FROM executions"), counted as i64);
    assert_eq!(count("SELECT count(*) FROM ready"), count("SELECT sum(n) FROM ready_counts"));
    assert_eq!(
        count("SELECT count(*) FROM ready"),
        count("SELECT count(*) FROM executions WHERE state = 'waiting'")
    );
    for status in store.status().await.unwrap().1 {
        let sql = format!("SELECT count(*) FROM events_view WHERE partition = {}", status.partition);
        assert_eq!(count(&sql), status.next_event as i64 - 1);
    }
}

#[tokio::test]
async fn the_death_of_a_process_is_proved_by_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let ours = SqliteStore::open(&file, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    drop(ours);
    let file = folder.path().join("b.db");
    let (mut killed, mut lines) = start("server one", &file);
    assert_eq!(next_said(&mut lines), "entered");
    let (mut leaves, mut lines) = start("server two", &file);
    assert_eq!(next_said(&mut lines), "entered");

    let store = SqliteStore::open(&file, Options::default()).unwrap();
    let alive = store.beat("server three".into()).await.unwrap();
    assert_eq!(alive, ["server one", "server three", "server two"]);
    assert_eq!(store.gone().await.unwrap(), Vec::<String>::new());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(store.beat("server three".into()).await.unwrap(), ["server three", "server two"]);
    assert_eq!(store.gone().await.unwrap(), ["server one"]);
    store.leave("server one".into()).await.unwrap();
    assert_eq!(store.gone().await.unwrap(), Vec::<String>::new());

    // A process that ends in order without leaving is gone as well; its name can be used again.
    drop(leaves.stdin.take());
    leaves.wait().unwrap();
    assert_eq!(store.gone().await.unwrap(), ["server two"]);
    store.beat("server two".into()).await.unwrap();
    assert_eq!(store.gone().await.unwrap(), Vec::<String>::new());
    store.leave("server two".into()).await.unwrap();
    store.leave("server three".into()).await.unwrap();
    assert_eq!(store.gone().await.unwrap(), Vec::<String>::new());
}

#[test]
fn processes_that_open_a_new_file_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let children: Vec<_> = (0..4).map(|_| start("open", &file)).collect();
    let mut ids = Vec::new();
    for (mut child, mut lines) in children {
        ids.push(next_said(&mut lines));
        assert!(child.wait().unwrap().success());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
}
