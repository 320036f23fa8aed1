//! One run: work and faults in turns, then healing, then the check.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ff_scratch::Proxy;
use ff_sim::rng::Rng;

use crate::fleet::Fleet;
use crate::ground::Ground;
use crate::truth::Truth;

/// How many turns of work and faults there are; a turn takes 50 to 250 milliseconds.
const TURNS: usize = 60;
/// For how many turns a worker is paused: longer than the lease.
const PAUSE_TURNS: (i64, i64) = (10, 20);
const WORKERS: usize = 4;
const PARTITIONS: u16 = 3;
/// Short, so that a paused worker loses what it holds.
const LEASE_MS: i64 = 1_000;
/// How long everything may take to end once the faults are over.
const HEALING: Duration = Duration::from_secs(40);

#[test]
fn remote_workers_killed_paused_and_cut_off_lose_nothing_and_end_nothing_twice() {
    let given = std::env::var("FLOWFABRIC_FAULT_SEED").ok();
    let seed = given.map_or_else(|| RandomState::new().hash_one(0) % 1_000_000, |it| it.parse().unwrap());
    println!("FLOWFABRIC_FAULT_SEED={seed}");
    let mut rng = Rng::new(seed);
    let ground = Ground::new(PARTITIONS, LEASE_MS);
    let proxy = Proxy::start(ground.address()).unwrap();
    let mut truth = Truth::default();
    let mut fleet = Fleet::new(proxy.port(), WORKERS);
    // The faults meet a fleet at work, not one that is starting.
    let deadline = Instant::now() + HEALING;
    while truth.completions() == 0 {
        assert!(Instant::now() < deadline, "nothing is completed: {truth}");
        ground.submit(1, &mut truth);
        fleet.listen(&mut truth, Duration::from_millis(100));
    }
    for turn in 0..TURNS {
        ground.submit(1 + rng.below(6), &mut truth);
        fleet.listen(&mut truth, Duration::from_millis(rng.range(50, 250) as u64));
        fleet.resume(turn);
        strike(&proxy, &mut fleet, &mut rng, turn);
    }
    proxy.heal();
    fleet.resume(usize::MAX);
    // It takes several tries where others compete for the cores.
    fleet.overtake(&mut truth, Instant::now() + 3 * HEALING, |truth| ground.submit(1, truth));
    let all = ground.wait_beside(truth.all().clone(), HEALING);
    while !all.is_finished() {
        fleet.listen(&mut truth, Duration::from_millis(50));
    }
    ground.finish(all).unwrap_or_else(|problem| panic!("{problem}\n{truth}"));
    let (killed, paused) = (fleet.killed, fleet.paused);
    fleet.stop(&mut truth);
    println!("{killed} killed, {paused} paused; {truth}");
    assert!(killed > 0 && paused > 0 && truth.has_seen_faults(), "this was no attack: {truth}");
    ground.check(&truth);
}

fn strike(proxy: &Proxy, fleet: &mut Fleet, rng: &mut Rng, turn: usize) {
    match rng.below(12) {
        0 | 1 => fleet.kill(rng),
        2 | 3 => {
            let until = turn + rng.range(PAUSE_TURNS.0, PAUSE_TURNS.1) as usize;
            fleet.pause(rng, until);
        }
        4 => proxy.cut(),
        5 | 6 => proxy.cut_after_to_client(rng.below(3_000) as u64),
        7 => proxy.cut_after_to_server(rng.below(3_000) as u64),
        8 | 9 => proxy.swallow_answers(),
        _ => {}
    }
}
