//! Numbers that a seed decides: `SplitMix64`, which is enough for visitors.

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
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
