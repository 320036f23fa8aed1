//! Every defect that can be switched on is found, and its seed says how to see it again.

use ff_sim::{Bug, Options, run_for, run_seed};

const SEEDS_MAX: u64 = 60;

#[track_caller]
fn found(bug: Bug) {
    let options = Options { bug: Some(bug), ..Options::default() };
    let stop = |summary: &ff_sim::Summary| summary.seeds >= SEEDS_MAX || !summary.violations.is_empty();
    let summary = run_for(stop, 1.., &options, |_| {});
    let Some(violation) = summary.violations.first() else {
        panic!("{} was not found in {} seeds", bug.name(), summary.seeds);
    };
    let replay = format!("cargo xtask sim --seed {} --bug {}", violation.seed, bug.name());
    assert!(violation.to_string().ends_with(&replay), "{violation}");
    assert!(!violation.trace.is_empty() && violation.trace.len() <= 40);
    let again = run_seed(violation.seed, &options).violation;
    assert_eq!(again.as_ref(), Some(violation));
    assert_eq!(run_seed(violation.seed, &Options::default()).violation, None, "only with the bug");
}

#[test]
fn a_store_without_version_check_is_found() {
    found(Bug::NoVersionCheck);
}

#[test]
fn a_lease_without_epoch_check_is_found() {
    found(Bug::NoEpochCheck);
}

#[test]
fn a_reply_before_its_commit_is_found() {
    found(Bug::ReplyBeforeCommit);
}

#[test]
fn a_window_that_loses_an_entry_is_found() {
    found(Bug::WindowOffByOne);
}

#[test]
fn a_timer_left_behind_is_found() {
    found(Bug::TimerNotDeleted);
}

#[test]
fn an_ignored_commit_id_is_found() {
    found(Bug::CommitIdIgnored);
}

#[test]
fn a_dropped_idempotency_key_is_found() {
    found(Bug::DedupDropped);
}

#[test]
fn a_stale_rejection_is_found() {
    found(Bug::StaleRejection);
}

#[test]
fn a_posted_row_that_stays_in_the_inbox_is_found() {
    found(Bug::RowNotRemoved);
}

#[test]
fn posted_rows_that_survive_a_conflict_are_found() {
    found(Bug::RowsSurviveConflict);
}

#[test]
fn an_ignored_turn_is_found() {
    found(Bug::TurnIgnored);
}

#[test]
fn an_edge_that_is_counted_twice_is_found() {
    found(Bug::DoubleCascade);
}

#[test]
fn every_bug_has_its_name() {
    for bug in Bug::ALL {
        assert_eq!(Bug::from_name(bug.name()), Some(*bug));
    }
    assert_eq!(Bug::from_name("permit-leaked"), None);
}
