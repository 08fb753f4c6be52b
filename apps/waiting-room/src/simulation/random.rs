//! Numbers that a seed decides.

use abide::random::SplitMix64;

pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// From 0 to 1.
    pub(super) fn part(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }

    /// Below a bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// How many come in a step, if this many come on average.
    #[allow(clippy::cast_sign_loss, reason = "averages are not negative")]
    pub(super) fn arrivals(&mut self, average: f64) -> u64 {
        let limit = (-average).exp();
        let (mut count, mut product) = (0, self.part());
        while product > limit {
            count += 1;
            product *= self.part();
        }
        count
    }
}
