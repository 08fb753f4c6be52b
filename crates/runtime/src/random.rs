//! The interface for randomness: the only source for unique ids and the jitter of retries.

use std::sync::{Mutex, PoisonError};

pub use abide_storage::SplitMix64;

/// A source of random bytes.
pub trait Randomness: Send + Sync + 'static {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandomness;

#[allow(clippy::disallowed_methods, reason = "it is the machine's")]
impl Randomness for SystemRandomness {
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness a "unique" id would not be unique: panicking is better than continuing.
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }
}

/// The same bytes for the same seed: for tests and simulations only.
#[derive(Debug)]
pub struct SeededRandomness(Mutex<SplitMix64>);

impl SeededRandomness {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(SplitMix64::new(seed)))
    }
}

impl Randomness for SeededRandomness {
    fn fill(&self, buffer: &mut [u8]) {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&random.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut bytes = [0; 20];
            SeededRandomness::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
