//! Figures for operators: how long things took, in buckets that never change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in milliseconds.
pub const BOUNDS_MS: [u64; 17] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000];

/// How often something took how long.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One more than there are bounds: the last is for everything longer.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How many took at most as long as each bound; the last counts all.
    pub up_to: [u64; BOUNDS_MS.len() + 1],
    pub sum_us: u64,
}

impl Histogram {
    pub fn add(&self, took: Duration) {
        let ms = took.as_micros().div_ceil(1_000);
        let place = BOUNDS_MS.partition_point(|bound| u128::from(*bound) < ms);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn add_ms(&self, ms: ff_core::Ms) {
        self.add(Duration::from_millis(ms.max(0).unsigned_abs()));
    }

    pub fn read(&self) -> Measured {
        let mut up_to = [0; BOUNDS_MS.len() + 1];
        let mut sum = 0;
        for (place, bucket) in self.buckets.iter().enumerate() {
            sum += bucket.load(Ordering::Relaxed);
            up_to[place] = sum;
        }
        Measured { up_to, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// What one engine has measured since it started.
#[derive(Debug, Default)]
pub struct Meters {
    /// From when an execution was created until its first attempt started.
    pub time_to_start: Histogram,
    /// From the start of the last attempt of an execution until its end.
    pub run: Histogram,
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
        assert_eq!(read.up_to[0], 2, "one millisecond and less");
        assert_eq!(read.up_to[2], 3, "five");
        assert_eq!(read.up_to[4], 4, "twenty");
        assert_eq!(read.up_to[BOUNDS_MS.len() - 1], 4, "an hour");
        assert_eq!(read.up_to[BOUNDS_MS.len()], 5, "all");
        assert_eq!(read.sum_us, 4_000_024_000);
    }
}
