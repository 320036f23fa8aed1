//! The one source of chance: everything in a run follows from its seed.

#[derive(Clone, Debug)]
pub struct Rng(u64);

/// A probability in ten-thousandths, so that runs do not depend on floating point.
pub type Rate = u32;

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n` − 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.draw() % (high - low + 1) as u64) as i64
    }

    pub fn chance(&mut self, rate: Rate) -> bool {
        rate > 0 && self.draw() % 10_000 < u64::from(rate)
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// The value in so many of ten thousand cases, otherwise nothing.
    pub fn maybe<T>(&mut self, rate: Rate, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        self.chance(rate).then(|| value(self))
    }
}
