//! Seeded random numbers, and numbers from the environment.

/// A small random generator (xorshift64*): the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; a seed of 0 counts as 1.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        u32::try_from(high).unwrap_or(0) % bound
    }
}

/// A number from the environment, such as the rounds of a long test.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number"))
    })
}
