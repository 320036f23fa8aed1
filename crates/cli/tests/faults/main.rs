//! Real processes under real faults. A parent owns the truth: it starts copies of the binary and of a worker that
//! tells what it was answered, gives them work, kills and pauses them, and checks at the end that every acknowledged
//! submission ended exactly once, every acknowledged completion stands, and no stale one was accepted.
//!
//! The choices follow from a seed, which is printed; `FLOWFABRIC_FAULT_SEED` repeats them. The operating system's
//! share of the chance cannot be repeated.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

mod attack;
mod cascades;
mod fleet;
mod parts;
mod postgres;
mod truth;

use attack::Attack;

#[test]
fn plays_its_part() {
    parts::play();
}

#[test]
fn on_one_file_every_acknowledged_submission_ends_once_whoever_is_killed_or_paused() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    Attack::on(&url).run();
}

#[test]
fn on_one_file_with_several_partitions_nothing_is_lost_either() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?partitions=3", folder.path().join("store.db").display());
    Attack::on(&url).run();
}
