//! How fast the store alone writes the lives of executions: no engine, decisions made beforehand.
//!
//! `cargo run --release -p ff-store-sqlite --example raw -- [batch] [executions] [full|normal|off] [folder]`

#[path = "../tests/store/desk.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod desk;

use std::time::{Duration, Instant};

use ff_store::{Commit, Outcome, Store};
use ff_store_sqlite::{Options, SqliteStore, Stats, Synchronous};

use desk::Desk;

#[derive(Default)]
struct Phase {
    rows: usize,
    spent: Duration,
}

impl Phase {
    async fn write(&mut self, store: &SqliteStore, commit: Commit) {
        self.rows += commit.changes.rows();
        let began = Instant::now();
        let outcome = store.commit(vec![commit]).await;
        self.spent += began.elapsed();
        assert!(matches!(outcome.as_slice(), [Outcome::Committed { .. }]), "{outcome:?}");
    }

    fn print(&self, name: &str, executions: usize) {
        let seconds = self.spent.as_secs_f64();
        println!(
            "{name:>9}: {:>8.0} rows/s  {:>7.0} executions/s  {:>6.2} us/row",
            self.rows as f64 / seconds,
            executions as f64 / seconds,
            seconds * 1e6 / self.rows as f64
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).and_then(|it| it.parse().ok()).unwrap_or(or);
    let (batch, executions) = (number(0, 500), number(1, 50_000));
    let synchronous = match arguments.get(2).map(String::as_str) {
        Some("off") => Synchronous::Off,
        Some("normal") => Synchronous::Normal,
        _ => Synchronous::Full,
    };
    let folder = match arguments.get(3) {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder for the file");
    let options = Options { synchronous, ..Options::default() };
    let store = SqliteStore::open(folder.path().join("raw.db"), options).expect("a new file");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(run(&store, batch, executions));
    report(&store.stats(), executions);
    let size = std::fs::metadata(folder.path().join("raw.db")).map_or(0, |it| it.len());
    println!("file {} bytes/execution", size / executions as u64);
}

/// Creates everything, then claims and completes everything: the queue is as long as it gets.
async fn run(store: &SqliteStore, batch: usize, executions: usize) {
    let mut desk = Desk::new(0, 1);
    let worker = desk.worker();
    desk.flush(store).await;
    let (mut create, mut claim, mut complete) = (Phase::default(), Phase::default(), Phase::default());
    let began = Instant::now();
    for _ in 0..executions / batch {
        desk.now += 5;
        for _ in 0..batch {
            desk.create();
        }
        create.write(store, desk.commit()).await;
    }
    for _ in 0..executions / batch {
        desk.now += 5;
        let fences = desk.claim(worker, batch);
        claim.write(store, desk.commit()).await;
        desk.now += 5;
        fences.into_iter().for_each(|fence| desk.complete(fence));
        complete.write(store, desk.commit()).await;
    }
    let all = began.elapsed();
    create.print("create", executions);
    claim.print("claim", executions);
    complete.print("complete", executions);
    let whole = Phase {
        rows: create.rows + claim.rows + complete.rows,
        spent: create.spent + claim.spent + complete.spent,
    };
    whole.print("all", executions);
    println!("deciding took {:.2?} beside {:.2?}", all - whole.spent, whole.spent);
}

fn report(stats: &Stats, executions: usize) {
    let per = |n: u64| n as f64 / executions as f64;
    println!(
        "per execution: {:.1} rows, {:.1} statements, {:.0} bytes of log; {} transactions, {} checkpoints",
        per(stats.rows),
        per(stats.statements),
        per(stats.wal_bytes),
        stats.transactions,
        stats.checkpoints
    );
}
