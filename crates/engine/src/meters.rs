//! Figures for operators: how long things took and how many came together, in buckets that never change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of lengths of time, in milliseconds.
const BOUNDS_MS: [u64; 17] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000];

/// The upper bounds of the buckets of numbers. A batch rarely has more commands than the last.
const BOUNDS_OF_NUMBERS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// Counts by bucket.
#[derive(Debug)]
struct Buckets<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    /// For everything above the last bound.
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Buckets<N> {
    fn new(bounds: &'static [u64; N]) -> Buckets<N> {
        let counts = std::array::from_fn(|_| AtomicU64::default());
        Buckets { bounds, counts, above: AtomicU64::default(), sum: AtomicU64::default() }
    }

    fn add(&self, value: u64, summed: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(place).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(summed, Ordering::Relaxed);
    }

    fn read(&self, bound_per_unit: f64, sum_per_unit: f64) -> Measured {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / bound_per_unit).chain([f64::INFINITY]);
        let mut count = 0;
        let up_to = bounds.zip(self.counts.iter().chain([&self.above])).map(|(bound, bucket)| {
            count += bucket.load(Ordering::Relaxed);
            (bound, count)
        });
        Measured { up_to: up_to.collect(), sum: self.sum.load(Ordering::Relaxed) as f64 / sum_per_unit }
    }
}

/// A histogram as it was at one moment, in the unit that operators read: seconds, or how many.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// How many were at most as large as each bound; the last bound is infinite and counts all.
    pub up_to: Vec<(f64, u64)>,
    pub sum: f64,
}

impl Measured {
    pub fn count(&self) -> u64 {
        self.up_to.last().map_or(0, |(_, all)| *all)
    }
}

/// How often something took how long.
#[derive(Debug)]
pub struct Histogram(Buckets<{ BOUNDS_MS.len() }>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Buckets::new(&BOUNDS_MS))
    }
}

impl Histogram {
    pub fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.add(us.div_ceil(1_000), us);
    }

    pub fn add_ms(&self, ms: ff_core::Ms) {
        self.add(Duration::from_millis(ms.max(0).unsigned_abs()));
    }

    /// In seconds.
    pub fn read(&self) -> Measured {
        self.0.read(1e3, 1e6)
    }
}

/// How often how many came together.
#[derive(Debug)]
pub struct Sizes(Buckets<{ BOUNDS_OF_NUMBERS.len() }>);

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes(Buckets::new(&BOUNDS_OF_NUMBERS))
    }
}

impl Sizes {
    pub fn add(&self, number: usize) {
        self.0.add(number as u64, number as u64);
    }

    pub fn read(&self) -> Measured {
        self.0.read(1.0, 1.0)
    }
}

/// What one engine has measured since it started.
#[derive(Debug, Default)]
pub struct Meters {
    /// From when the first attempt of an execution might have started until it did. A delay that was asked for, and the
    /// wait for other members of a flow, come before that.
    pub time_to_start: Histogram,
    /// From the start of the last attempt of an execution until its end.
    pub run: Histogram,
    /// How many commands each commit carried.
    pub batch_commands: Sizes,
    pub store_load: Histogram,
    pub store_commit: Histogram,
    pub store_status: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_counts_in_its_bucket_and_all_above_it() {
        let histogram = Histogram::default();
        for ms in [0, 1, 3, 20, 4_000_000] {
            histogram.add_ms(ms);
        }
        let read = histogram.read();
        let up_to = |bound: f64| read.up_to.iter().find(|it| it.0 == bound).map(|it| it.1);
        let (hour, all) = (up_to(3_600.0), up_to(f64::INFINITY));
        assert_eq!((up_to(0.001), up_to(0.005), up_to(0.02)), (Some(2), Some(3), Some(4)));
        assert_eq!((hour, all, read.count()), (Some(4), Some(5), 5));
        assert_eq!(read.sum, 4_000.024);
    }

    #[test]
    fn each_number_counts_in_its_bucket_and_all_above_it() {
        let sizes = Sizes::default();
        for number in [0, 1, 2, 3, 5_000, 5_001] {
            sizes.add(number);
        }
        let read = sizes.read();
        let counts: Vec<u64> = read.up_to.iter().map(|it| it.1).collect();
        assert_eq!(counts, [2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 6]);
        assert_eq!((read.sum, read.count()), (10_007.0, 6));
    }
}
