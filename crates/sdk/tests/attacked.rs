//! Workers of this SDK that speak to a server over HTTP, each a process of its own. They are killed, paused past their
//! lease and cut off; the parent, which holds the store, sees to it that everything ends exactly once, and by whoever
//! held the newest lease.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use ff_scratch::Proxy;
use flowfabric::{
    Backoff, Context, EventFilter, ExecutionId, Fabric, Policy, PublicState, Run, Start, Submission, Worker,
    connect,
};
use tokio::sync::{Notify, mpsc};

const URL: &str = "FF_TEST_URL";
const WORKERS: usize = 3;
/// How often each thing goes wrong.
const ROUNDS: usize = 3;
/// How much is done beside what is struck, in each turn.
const BESIDE: usize = 10;

/// What goes wrong while somebody works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    Kill,
    /// Until somebody else has done its work.
    Pause,
    Cut,
    /// Answers are lost.
    Swallow,
}

const STRIKES: [Strike; 4] = [Strike::Kill, Strike::Pause, Strike::Cut, Strike::Swallow];

/// What this test binary does when it is a child: it works. Whoever tries something first waits for a word on its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plays_its_part() {
    let Ok(url) = std::env::var(URL) else { return };
    let go = Arc::new(Notify::new());
    let told = go.clone();
    std::thread::spawn(move || std::io::stdin().lock().lines().for_each(|_| told.notify_waiters()));
    let remote = connect(&url).await.unwrap();
    let quick = |ctx: Context, (): ()| async move { Ok(mark(&ctx)) };
    let slow = move |ctx: Context, (): ()| {
        let go = go.clone();
        async move {
            // Whoever hears that it has begun may say the word at once.
            let word = go.notified();
            println!("@ began {}", ctx.id());
            if ctx.attempt() == 1 {
                word.await;
            }
            Ok(mark(&ctx))
        }
    };
    let worker = Worker::new(&remote).concurrency(4).on("quick", quick).on("slow", slow);
    worker.run_until(std::future::pending()).await.unwrap();
}

/// What no other attempt has as its result.
fn mark(ctx: &Context) -> String {
    format!("{}-{}", std::process::id(), ctx.attempt())
}

struct Fleet {
    url: String,
    members: BTreeMap<u32, (Child, ChildStdin)>,
    /// What somebody began, and whose process it is.
    hears: mpsc::UnboundedReceiver<(u32, ExecutionId)>,
    tells: mpsc::UnboundedSender<(u32, ExecutionId)>,
}

impl Fleet {
    fn new(url: &str) -> Fleet {
        let (tells, hears) = mpsc::unbounded_channel();
        let mut fleet = Fleet { url: url.to_owned(), members: BTreeMap::new(), hears, tells };
        (0..WORKERS).for_each(|_| fleet.start());
        fleet
    }

    fn start(&mut self) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "plays_its_part", "--nocapture", "--test-threads=1"]).env(URL, &self.url);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (number, tells) = (child.id(), self.tells.clone());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, id)) = line.split_once("@ began ") {
                    let _ = tells.send((number, id.parse().unwrap()));
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        self.members.insert(number, (child, stdin));
    }

    /// Who has begun this.
    async fn holder(&mut self, id: ExecutionId) -> u32 {
        loop {
            let (number, began) = self.hears.recv().await.unwrap();
            if began == id {
                return number;
            }
        }
    }

    /// Whoever waits for a word goes on.
    fn go(&mut self, number: u32) {
        writeln!(self.members.get_mut(&number).unwrap().1).unwrap();
    }

    fn kill(&mut self, number: u32) {
        let (mut child, _) = self.members.remove(&number).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.start();
    }

    /// Nobody has ended by itself.
    fn assert_alive(&mut self) {
        for (child, _) in self.members.values_mut() {
            assert_eq!(child.try_wait().unwrap(), None, "a worker has ended by itself");
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (child, _) in self.members.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn signal(number: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &number.to_string()]).status().unwrap().success());
}

fn policy() -> Policy {
    // Short, so that whoever is paused loses what it holds.
    let backoff = Backoff { initial_ms: 1, max_ms: 1, ..Backoff::default() };
    Policy { lease_ms: 1_000, losses_max: 1_000, backoff, ..Policy::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_over_http_that_are_killed_paused_and_cut_off_end_everything_once() {
    let local = connect("memory:").await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ff_server::Config { address, ..ff_server::Config::default() };
    let server = ff_server::start(local.engine().unwrap().clone(), config).await.unwrap();
    let proxy = Proxy::start(server.address).unwrap();
    let mut fleet = Fleet::new(&format!("http://127.0.0.1:{}", proxy.port()));
    let mut runs = Vec::new();
    for strike in STRIKES.repeat(ROUNDS) {
        let beside = (0..BESIDE).map(|_| Submission::new("quick", &()).policy(policy())).collect();
        runs.extend(local.submit_many(beside).await.into_iter().map(Result::unwrap));
        let struck = local.submit("slow", &()).policy(policy()).await.unwrap();
        let holder = fleet.holder(struck.id()).await;
        match strike {
            Strike::Kill => fleet.kill(holder),
            Strike::Pause => signal(holder, "-STOP"),
            Strike::Cut => proxy.cut(),
            Strike::Swallow => proxy.swallow_answers(),
        }
        if matches!(strike, Strike::Cut | Strike::Swallow) {
            fleet.go(holder);
        }
        let result = struck.result::<String>().await.unwrap();
        if strike == Strike::Pause {
            assert!(!result.starts_with(&format!("{holder}-")), "{strike:?}: {result}");
            // It may go on with what another has done by now, as soon as it finds itself awake.
            fleet.go(holder);
            signal(holder, "-CONT");
        }
        runs.push(struck);
    }
    for run in &runs {
        let ended = run.wait().await.unwrap();
        assert_eq!(ended.execution.public_state(), PublicState::Completed, "{}", run.id());
    }
    fleet.assert_alive();
    drop(fleet);
    let once: BTreeMap<ExecutionId, usize> = runs.iter().map(|run| (run.id(), 1)).collect();
    assert_eq!(endings(&local).await, once);
    for run in &runs {
        assert_ended_by_the_newest(&local, run).await;
    }
}

async fn assert_ended_by_the_newest(local: &Fabric, run: &Run) {
    let result = run.result::<String>().await.unwrap();
    let newest = local.get(run.id()).await.unwrap().attempt_number();
    assert!(result.ends_with(&format!("-{newest}")), "{} was ended by {result}, not by {newest}", run.id());
}

/// How often each execution has ended, by the event log up to now.
async fn endings(fabric: &Fabric) -> BTreeMap<ExecutionId, usize> {
    let mut events = fabric.events(EventFilter::default(), Start::Beginning).await.unwrap();
    let last = fabric.submit("last", &()).await.unwrap().id();
    let mut endings = BTreeMap::new();
    loop {
        let event = events.next().await.unwrap().event;
        match event.execution {
            Some(id) if id == last => return endings,
            Some(id) if event.fact.ends() => *endings.entry(id).or_default() += 1,
            _ => {}
        }
    }
}
