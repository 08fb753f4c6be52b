//! Seeded random numbers.

use abide::random::SplitMix64;

/// What a seed decides.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.draw() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Returns true with a probability of one in `bound`.
    pub fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }
}
