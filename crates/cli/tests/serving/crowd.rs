//! Ten thousand who wait.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::served::{Served, answer};

const CROWD: u64 = 10_000;

/// Files that are open for other reasons.
const OTHERS: u64 = 200;

/// What the server may hold. What is not optimised takes half as much again, for each who waits and for its code.
const MEMORY_MAX: u64 = if cfg!(debug_assertions) { 300 << 20 } else { 200 << 20 };

/// Hundredths of a second that the server may run while nothing happens for two seconds.
const TICKS_MAX: u64 = if cfg!(debug_assertions) { 50 } else { 20 };

/// How often two seconds are looked at until they are quiet: streams that were opened together say together that they are
/// there, once in fifteen seconds, and what was done to open them is not over at once.
const WINDOWS_MAX: usize = 10;

/// Lets this process open as many files as it needs; the server is another one, which gets the same limit. Whoever may
/// not is told, because fewer would prove less.
fn crowd() -> u64 {
    let (limit, wanted) = (getrlimit(Resource::Nofile), CROWD + OTHERS);
    let most = limit.maximum.map_or(wanted, |most| most.max(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) });
    assert!(
        raised.is_ok(),
        "{wanted} open files are needed: raise `ulimit -Hn`, which is {:?} here",
        limit.maximum
    );
    CROWD
}

fn read(process: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap()
}

/// Bytes of memory that the process holds.
fn resident(process: u32) -> u64 {
    let status = read(process, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Hundredths of a second that the process has run, for itself and in the kernel.
fn ticks(process: u32) -> u64 {
    let stat = read(process, "stat");
    // The name of the program may hold anything but ends with the last parenthesis.
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn ten_thousand_who_wait_cost_little_memory_and_no_time_and_are_answered_at_the_end() {
    let half = crowd() / 2;
    // A slow machine may need minutes until all are there, and until all are answered.
    let mut served = Served::start(&["--wait-max", "1h", "--grace", "5m"]);
    let process = served.process.id();
    // Nobody claims in its lane, so it has no output and does not end.
    let silent = served.send("POST", "/v1/executions", json!({ "kind": "a", "lane": "elsewhere" })).json();
    let output = format!("/v1/executions/{}/stream", silent["id"].as_str().unwrap());
    let worker = served.worker();
    let mut polls: Vec<TcpStream> = (0..half).map(|_| served.poll(&worker)).collect();
    let follow = |path: &str| served.open("GET", path, "accept: text/event-stream\r\n", "");
    let mut streams: Vec<TcpStream> =
        (0..half).map(|nth| follow(if nth % 2 == 0 { "/v1/events" } else { &output })).collect();
    while served.metric("flowfabric_long_polls") < half || served.metric("flowfabric_sse_clients") < half {}

    let idle = &mut polls[0];
    idle.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut ran = u64::MAX;
    for _ in 0..WINDOWS_MAX {
        let before = ticks(process);
        let silence = idle.read(&mut [0; 1]).unwrap_err();
        assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
        ran = ran.min(ticks(process) - before);
        if ran <= TICKS_MAX {
            break;
        }
    }
    idle.set_read_timeout(None).unwrap();
    assert!(ran <= TICKS_MAX, "the server ran for {ran} hundredths of a second while nothing happened");
    let held = resident(process);
    assert!(held < MEMORY_MAX, "{} MiB for {} who wait", held >> 20, 2 * half);
    println!("{} wait: {} MiB, {ran} hundredths of a second in two seconds", 2 * half, held >> 20);

    served.ask_to_end();
    for poll in &mut polls {
        let polled = answer(poll);
        assert_eq!((polled.status, polled.json()), (200, json!({ "tasks": [] })));
    }
    for stream in &mut streams {
        assert_eq!(answer(stream).status, 200);
    }
    assert!(served.wait().success());
}
