//! Seeds without a bug find nothing, those that once found something included, and say the same twice.

use ff_sim::{Options, regressions, run_for, run_seed};

/// Shorter than what a seed would draw, so that hundreds of them fit into a test run.
const SHORT: Options = Options { steps: Some(1_500), bug: None, whole_trace: false };

#[track_caller]
fn clean(seeds: impl IntoIterator<Item = u64>, options: &Options) {
    for seed in seeds {
        if let Some(violation) = run_seed(seed, options).violation {
            panic!("{violation}");
        }
    }
}

#[test]
fn seeds_that_once_failed_stay_clean() {
    clean(regressions::seeds(), &Options::default());
}

#[test]
fn the_first_hundred_seeds_are_clean() {
    clean(1..=100, &SHORT);
}

#[test]
fn the_second_hundred_seeds_are_clean() {
    clean(101..=200, &SHORT);
}

#[test]
fn the_third_hundred_seeds_are_clean() {
    clean(201..=300, &SHORT);
}

#[test]
fn a_seed_goes_the_same_way_twice_and_another_goes_another() {
    let options = Options::default();
    for seed in [7, 8] {
        let (one, two) = (run_seed(seed, &options), run_seed(seed, &options));
        assert_eq!(one, two);
        assert_ne!(one.trace_hash, run_seed(seed + 1, &options).trace_hash);
    }
}

#[test]
fn a_run_counts_what_it_did_and_every_kind_of_fault_happens() {
    let mut seen = 0;
    let summary = run_for(|it| it.seeds >= 30, 400.., &Options::default(), |it| seen = it.seeds);
    assert_eq!((summary.seeds, seen), (30, 30));
    assert!(summary.violations.is_empty(), "{}", summary.violations[0]);
    assert!(summary.commands > 1_000 && summary.steps > 60_000, "{summary:?}");
    let never: Vec<&str> = summary.faults.iter().filter(|it| it.1 == 0).map(|it| it.0.name()).collect();
    assert!(never.is_empty(), "{never:?}");
}
