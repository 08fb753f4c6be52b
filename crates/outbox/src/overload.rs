//! An overloaded node: the outbox pauses itself, longer each time, and probes with one attempt.
//!
//! Contract: pure, and in memory only: refused messages stay where they were, and an outbox that is opened again probes
//! again.

use super::limits;
use abide_component::numbers::millis;

/// The state of the pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overload {
    until: i64,
    in_a_row: u32,
}

impl Overload {
    /// An attempt could not be sent. Those that began before the pause say nothing new.
    pub(super) fn refused(self, now: i64) -> Self {
        if self.until > now {
            return self;
        }
        let pause = limits::NOT_SENT_PAUSE
            .saturating_mul(1 << self.in_a_row.min(16))
            .min(limits::MAX_NOT_SENT_PAUSE);
        Self {
            until: now.saturating_add(millis(pause)),
            in_a_row: self.in_a_row.saturating_add(1),
        }
    }

    /// Until when nothing is to be sent.
    pub(super) fn paused_until(self, now: i64) -> Option<i64> {
        Some(self.until).filter(|until| *until > now)
    }

    /// True from the first refusal until an attempt was sent: one attempt at a time.
    pub(super) fn is_probed(self) -> bool {
        self.in_a_row > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_with_each_probe_up_to_its_longest() {
        let mut overload = Overload::default();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            overload = overload.refused(now).refused(now);
            let until = overload.paused_until(now).unwrap();
            pauses.push((until - now) / 1_000);
            now = until;
            assert_eq!(overload.paused_until(now), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }
}
