//! The same random programs on SQLite, PostgreSQL and in memory: they answer alike and end in the same state.
//!
//! `cargo xtask sim --differential --seconds N` tries more seeds than the test does by itself, `--seed N` repeats one.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

mod databases;
#[path = "../../store-sqlite/tests/files/mod.rs"]
mod files;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ff_store::conformance::{Factory, MemoryFactory, differ};

use databases::Databases;
use files::Files;

/// How long a program is.
const BATCHES: usize = 160;
/// How many seeds the test tries if it is told nothing: every number of partitions, with and without reopening.
const SEEDS: u64 = 6;

fn given(name: &str) -> Option<u64> {
    std::env::var(format!("FLOWFABRIC_DIFFERENTIAL_{name}")).ok().map(|value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_programs_end_alike_on_every_store() {
    let (seed, seconds) = (given("SEED"), given("SECONDS").map(Duration::from_secs));
    let first = seed.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    let postgres = Databases { pooled: false };
    // The last one is right.
    let factories: [(&str, &dyn Factory); 3] =
        [("SQLite", &Files), ("PostgreSQL", &postgres), ("memory", &MemoryFactory)];
    let started = Instant::now();
    let mut tried = 0;
    loop {
        let now = first + tried;
        if let Err(problem) = differ(&factories, now, BATCHES).await {
            panic!("{problem}\nreplay: cargo xtask sim --differential --seed {now}");
        }
        tried += 1;
        let over = match (seed, seconds) {
            (Some(_), _) => true,
            (None, Some(time)) => started.elapsed() >= time,
            (None, None) => tried >= SEEDS,
        };
        if over {
            break;
        }
    }
    println!("{tried} seeds from {first}: every store ends in the same state");
}
