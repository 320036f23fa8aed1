//! Remote workers under real faults. Each is a process that speaks HTTP through a proxy of ours; it is killed, paused past
//! its lease, and cut off in the middle of requests and answers. The parent owns the truth: it submits, hears what workers
//! were answered, and checks at the end that everything ended exactly once, that every acknowledged completion stands, and
//! that no stale one was accepted.
//!
//! The choices follow from a seed, which is printed; `FLOWFABRIC_FAULT_SEED` repeats them. The operating system's share of
//! the chance cannot be repeated.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

mod attack;
mod client;
mod cuts;
mod fleet;
mod ground;
mod truth;
mod worker;

#[test]
fn plays_its_part() {
    worker::play();
}
