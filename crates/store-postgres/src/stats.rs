//! Figures about the work of a store, for benchmarks and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use ff_store::Histogram;

/// Counted since the store was opened, by this process alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits of one partition that were written.
    pub commits: u64,
    pub conflicts: u64,
    /// Commits that were not written for another reason, or of which that is not known.
    pub failures: u64,
    /// Calls of the commit function, each one statement and one transaction.
    pub calls: u64,
    /// Other statements: loads, status, pages.
    pub reads: u64,
    /// Records written or removed, events and counters aside.
    pub rows: u64,
    /// How many calls wrote so many records: `(most, calls)`, in powers of two.
    pub batches: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) rows: AtomicU64,
    batches: Histogram,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn call(&self, rows: u64) {
        add(&self.calls, 1);
        add(&self.rows, rows);
        self.batches.note(rows);
    }

    pub(crate) fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: get(&self.commits),
            conflicts: get(&self.conflicts),
            failures: get(&self.failures),
            calls: get(&self.calls),
            reads: get(&self.reads),
            rows: get(&self.rows),
            batches: self.batches.snapshot(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_the_power_of_two_that_holds_their_records() {
        let counters = Counters::default();
        for rows in [0, 1, 2, 3, 4, 5, 1_000] {
            counters.call(rows);
        }
        assert_eq!(counters.snapshot().batches, [(1, 2), (2, 1), (4, 2), (8, 1), (1_024, 1)]);
        assert_eq!((counters.snapshot().rows, counters.snapshot().calls), (1_015, 7));
    }
}
