//! Waits after failures in a row.

use std::time::Duration;

use crate::Machine;

/// Doubles from a second to a limit, and takes a random half of it away, so that many nodes do not come back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    limit: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, failures: 0 }
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How often it has failed in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// How long to wait after one more failure.
    pub(crate) fn failed(&mut self, machine: &dyn Machine) -> Duration {
        let full = Duration::from_secs(1).saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let full = full.min(self.limit);
        // Without chance it waits the full time.
        let chance = machine.random().map_or(u32::MAX, u32::from_le_bytes);
        full / 2 + (full / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealMachine;

    #[test]
    fn waits_grow_to_the_limit_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_secs(20));
        for full in [1, 2, 4, 8, 16, 20, 20] {
            let wait = backoff.failed(&RealMachine);
            let full = Duration::from_secs(full);
            assert!(full / 2 <= wait && wait <= full, "{wait:?} of {full:?}");
        }
        backoff.succeeded();
        assert!(backoff.failed(&RealMachine) <= Duration::from_secs(1));
    }
}
