//! When each destination is polled next.

use std::collections::HashMap;

use super::limits;
use abide_component::numbers::micros;

/// The last scheduled poll of each destination with its maximum of polls in flight, in microseconds since 1970. These
/// times are spread evenly: however many operations wait, few are postponed again in a second.
#[derive(Debug, Default)]
pub(super) struct PollTurns(HashMap<String, i64>);

impl PollTurns {
    /// The time of the next scheduled poll, in milliseconds. `at_a_time` may be polled at a time.
    pub(super) fn next(&mut self, destination: &str, at_a_time: u32, now: i64) -> i64 {
        let turn = micros(limits::POLL_TURN) / i64::from(at_a_time.max(1));
        let last = self.0.entry(destination.to_owned()).or_default();
        *last = (*last).max(now.saturating_mul(1_000)).saturating_add(turn);
        last.div_euclid(1_000).max(now.saturating_add(1))
    }

    pub(super) fn forget(&mut self, destination: &str) {
        self.0.remove(destination);
    }
}
