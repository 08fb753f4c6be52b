//! Pauses of a receiver that asks for patience.

use std::time::Duration;

use crate::{limits, numbers::millis, retry::doubled};

/// The pause of a receiver that throttles: as long as it asks, at most [`limits::MAX_RETRY_AFTER`]. If it asks for less
/// than a second, or for nothing, and `in_a_row` attempts before this one were throttled, the pause grows.
pub fn pause(asked: Option<Duration>, in_a_row: u32) -> Duration {
    let shortest = match asked {
        Some(asked) if asked >= limits::DEFAULT_THROTTLE_PAUSE => {
            return asked.min(limits::MAX_RETRY_AFTER);
        }
        Some(_) => limits::MIN_THROTTLE_PAUSE,
        None => limits::DEFAULT_THROTTLE_PAUSE,
    };
    let grown = doubled(shortest, limits::MAX_THROTTLE_PAUSE, in_a_row);
    asked.unwrap_or_default().max(grown)
}

/// Why work that was throttled since a time is given up, if it is.
pub fn why_over(patience: Duration, since: i64, now: i64, last: &str) -> Option<String> {
    (now.saturating_sub(since) >= millis(patience)).then(|| {
        let days = patience.as_secs_f64() / 86_400.0;
        format!("it was throttled for {days:.1} days; the last response: {last}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_asks_for_too_little_is_asked_more_rarely() {
        let none = Some(Duration::ZERO);
        assert_eq!(pause(none, 0), Duration::from_millis(100));
        assert_eq!(pause(none, 3), Duration::from_millis(800));
        assert_eq!(pause(none, 60), Duration::from_secs(30));
        assert_eq!(
            pause(Some(Duration::from_mins(5)), 60),
            Duration::from_mins(5)
        );
        assert_eq!(pause(Some(Duration::MAX), 0), Duration::from_hours(24));
        assert_eq!(pause(None, 0), Duration::from_secs(1));
    }

    #[test]
    fn throttled_work_is_given_up_when_patience_ends() {
        let hour = Duration::from_hours(1);
        assert_eq!(why_over(hour, 0, 3_599_999, "429"), None);
        assert!(
            why_over(hour, 0, 3_600_000, "429")
                .unwrap()
                .ends_with("429")
        );
        assert_eq!(why_over(hour, i64::MAX, 0, "429"), None);
    }
}
