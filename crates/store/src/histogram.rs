//! How often something had which size, for the figures that stores keep of their work.

use std::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: usize = 24;

/// Counts sizes by the power of two that holds them; everything above the last counts there.
#[derive(Debug, Default)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    pub fn note(&self, size: u64) {
        let bucket = (u64::BITS - size.saturating_sub(1).leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// `(most, how often)`, without what never was.
    pub fn snapshot(&self) -> Vec<(u64, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| (1 << bucket, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_the_power_of_two_that_holds_them() {
        let histogram = Histogram::default();
        [0, 1, 2, 3, 4, 5, 1_000, u64::MAX].into_iter().for_each(|size| histogram.note(size));
        let last = 1 << (BUCKETS - 1);
        assert_eq!(histogram.snapshot(), [(1, 2), (2, 1), (4, 2), (8, 1), (1_024, 1), (last, 1)]);
    }
}
