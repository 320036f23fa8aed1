//! Real servers: they start, break as told, and leave nothing behind.
//!
//! An owner that is killed is this test binary again, asked for the one test that plays the part.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ff_scratch::{
    Bouncer, Cluster, Database, OpenTransaction, Session, Settings, run_sql, test_bouncer, test_postgres,
    until_blocked,
};

/// Asks until the answer is the one wanted; the question itself takes some milliseconds.
#[track_caller]
fn until(what: &str, mut true_at_last: impl FnMut() -> bool) {
    let started = Instant::now();
    while !true_at_last() {
        assert!(started.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::yield_now();
    }
}

/// Whether a process runs; one that has ended and whose parent has not looked does not.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

fn folder_of(pid: u32) -> std::path::PathBuf {
    let data = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    data.parent().unwrap().to_owned()
}

#[test]
fn a_server_answers_survives_a_crash_and_leaves_nothing() {
    let cluster = Cluster::start(Settings::quick().with("synchronous_commit", "on")).unwrap();
    let url = cluster.url();
    assert_eq!(run_sql(&url, &["SELECT 1"]).unwrap(), "1");
    assert_eq!(run_sql(&url, &["SHOW fsync", "SHOW synchronous_commit"]).unwrap(), "off\non");
    run_sql(&url, &["CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)"]).unwrap();
    let first = cluster.pid().unwrap();
    cluster.restart_immediate().unwrap();
    assert!(!runs(first));
    assert_eq!(run_sql(&url, &["SELECT n FROM kept"]).unwrap(), "7");
    assert!(cluster.log_tail().contains("automatic recovery in progress"), "{}", cluster.log_tail());

    cluster.stop_fast().unwrap();
    assert!(run_sql(&url, &["SELECT 1"]).is_err());
    assert_eq!(cluster.pid(), None);
    cluster.start_again().unwrap();
    let last = cluster.pid().unwrap();
    let folder = folder_of(last);
    assert_eq!(run_sql(&cluster.url_of("template1"), &["SELECT 2"]).unwrap(), "2");
    drop(cluster);
    until("the server is gone", || !runs(last));
    assert!(!folder.exists());
}

#[test]
fn a_wrong_password_is_refused() {
    let cluster = Cluster::start(Settings::durable()).unwrap();
    let url = cluster.url();
    let (_, server) = url.split_once('@').unwrap();
    let error = run_sql(&format!("postgres://postgres:wrong@{server}"), &["SELECT 1"]).unwrap_err();
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    assert_eq!(run_sql(&cluster.url(), &["SHOW fsync", "SHOW full_page_writes"]).unwrap(), "on\non");
}

#[test]
fn a_standby_follows_and_takes_over() {
    let cluster = Cluster::start(Settings::quick()).unwrap();
    run_sql(&cluster.url(), &["CREATE TABLE kept (n int)"]).unwrap();
    let standby = cluster.standby().unwrap();
    run_sql(&cluster.url(), &["INSERT INTO kept VALUES (7)"]).unwrap();
    let count = "SELECT count(*) FROM kept";
    until("the standby has it", || run_sql(&standby.url(), &[count]).unwrap() == "1");
    assert!(run_sql(&standby.url(), &["INSERT INTO kept VALUES (8)"]).is_err());
    cluster.stop_immediate().unwrap();
    standby.promote().unwrap();
    run_sql(&standby.url(), &["INSERT INTO kept VALUES (8)"]).unwrap();
    assert_eq!(run_sql(&standby.url(), &[count]).unwrap(), "2");
}

#[test]
fn a_bouncer_answers_for_every_database() {
    let cluster = Cluster::start(Settings::quick()).unwrap();
    let bouncer = Bouncer::start(&cluster.url()).unwrap();
    let database = Database::create(&cluster.url(), None).unwrap();
    let url = bouncer.url_of(database.name());
    assert_eq!(run_sql(&url, &["SELECT current_database()"]).unwrap(), database.name());
    let error = run_sql(&bouncer.url_of("pgbouncer"), &["SHOW CONFIG"]).unwrap_err();
    assert!(error.to_string().contains("not allowed"), "{error}");
    drop(bouncer);
    assert!(run_sql(&url, &["SELECT 1"]).is_err());
    assert_eq!(run_sql(&database.url(), &["SELECT 1"]).unwrap(), "1");
}

#[test]
fn a_database_is_copied_from_its_template_and_goes_with_its_owner() {
    let admin = test_postgres().unwrap();
    let template = Database::create(&admin, None).unwrap();
    run_sql(&template.url(), &["CREATE TABLE kept AS SELECT 7 AS n"]).unwrap();
    let copy = Database::create(&admin, Some(template.name())).unwrap();
    assert_eq!(run_sql(&copy.url(), &["SELECT n FROM kept"]).unwrap(), "7");
    assert_eq!(run_sql(&test_bouncer(copy.name()).unwrap(), &["SELECT n FROM kept"]).unwrap(), "7");
    let name = copy.name().to_owned();
    // The pooler still has a connection to it.
    drop(copy);
    let count = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(run_sql(&admin, &[&count]).unwrap(), "0");
}

#[test]
fn an_open_transaction_holds_the_horizon_back_until_it_is_dropped() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    let open = OpenTransaction::begin(&database.url()).unwrap();
    run_sql(&database.url(), &["SELECT pg_current_xact_id()", "SELECT pg_current_xact_id()"]).unwrap();
    assert!(open.held_back().unwrap() >= 2);
    drop(open);
    let ended = "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle in transaction' \
                 AND datname = current_database()) LOOP PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
    run_sql(&database.url(), &["SET statement_timeout = '10s'", ended]).unwrap();
}

#[test]
fn a_session_holds_its_locks_and_is_over_when_a_statement_is_refused() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    let url = database.url();
    let (mut holder, mut waiter) = (Session::open(&url).unwrap(), Session::open(&url).unwrap());
    assert_eq!(
        holder.run("CREATE TABLE t (n int); BEGIN; LOCK TABLE t; SELECT 1; SELECT 2").unwrap(),
        "1\n2"
    );
    until_blocked(&url, 0).unwrap();
    waiter.start("SELECT count(*) FROM t").unwrap();
    until_blocked(&url, 1).unwrap();
    holder.run("COMMIT").unwrap();
    assert_eq!(waiter.finish().unwrap(), "0");
    let error = waiter.run("SELECT no_such_thing").unwrap_err().to_string();
    assert!(error.contains("no_such_thing"), "{error}");
    assert!(waiter.run("SELECT 1").is_err());
}

const PART: &str = "FF_TEST_PART";

#[test]
fn plays_its_part() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let cluster = Cluster::start(Settings::quick()).unwrap();
    let bouncer = Bouncer::start(&cluster.url()).unwrap();
    println!("@ {} {}", cluster.pid().unwrap(), bouncer.url_of("postgres"));
    // Until the parent kills.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn nothing_outlives_an_owner_that_is_killed() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_its_part", "--nocapture", "--test-threads=1"])
        .env(PART, "owner")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find_map(|line| line.split_once("@ ").map(|it| it.1.to_owned()));
    let said = said.expect("the owner ended early");
    let (pid, bouncer) = said.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    let folder = folder_of(pid);
    assert!(runs(pid));
    assert_eq!(run_sql(bouncer, &["SELECT 1"]).unwrap(), "1");
    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the server is gone", || !runs(pid));
    until("its folder is gone", || !Path::new(&folder).exists());
    until("the pooler is gone", || {
        run_sql(bouncer, &["SELECT 1"]).is_err_and(|it| it.to_string().contains("refused"))
    });
}
