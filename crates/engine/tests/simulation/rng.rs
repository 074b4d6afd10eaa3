//! The only source of chance: seeded, so that a schedule can be had again.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to `bound - 1`; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        match self.next().checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }

    /// From `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True this many times in a hundred.
    pub const fn percent(&mut self, parts: u64) -> bool {
        self.below(100) < parts
    }

    /// True this many times in a thousand.
    pub const fn per_mille(&mut self, parts: u64) -> bool {
        self.below(1000) < parts
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of the list, each as likely as its weight. `None` if all weights are 0.
    pub fn weighted<T>(&mut self, list: Vec<(u64, T)>) -> Option<T> {
        let total = list.iter().map(|(weight, _)| weight).sum();
        let mut place = if total == 0 {
            return None;
        } else {
            self.below(total)
        };
        for (weight, item) in list {
            if place < weight {
                return Some(item);
            }
            place -= weight;
        }
        None
    }
}
