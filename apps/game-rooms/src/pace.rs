//! How fast a socket sends.

use std::time::Duration;

use crate::limits::MESSAGES_WINDOW;

/// The pace of one socket: a token bucket of [`MESSAGES_WINDOW`], kept as the time at which it will be full again.
///
/// It is in memory only. An object leaves memory when it has been idle, and by then the bucket is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    full_at: Duration,
}

impl Pace {
    /// Counts a message. False if it is one too many; that one is not counted.
    pub(crate) fn allows(&mut self, per_second: u32, now: Duration) -> bool {
        let full_at = self.full_at.max(now) + Duration::from_secs(1) / per_second.max(1);
        let is_allowed = full_at <= now + MESSAGES_WINDOW;
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_of_messages_may_come_at_once_and_then_the_rate() {
        let mut pace = Pace::default();
        let start = Duration::from_secs(1_000);
        let sent = |pace: &mut Pace, now| (0..10_000).take_while(|_| pace.allows(100, now)).count();
        assert_eq!(sent(&mut pace, start), 1_000);
        assert_eq!(sent(&mut pace, start + Duration::from_secs(1)), 100);
        assert_eq!(sent(&mut pace, start + Duration::from_mins(1)), 1_000);
    }
}
