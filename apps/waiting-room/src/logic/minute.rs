//! Minutes, by which a waiting room counts.

use serde::{Deserialize, Serialize};

/// The number of a minute since 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Minute(pub u64);

impl Minute {
    /// The minute of a moment, if a minute has this many milliseconds.
    pub fn at(unix_millis: u64, minute_millis: u64) -> Self {
        Self(unix_millis / minute_millis.max(1))
    }

    /// The minute that was `count` minutes before.
    #[must_use]
    pub fn before(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_from_19_51_00_to_19_51_59_are_in_minute_19_51() {
        let at = |h: u64, m: u64, s: u64| Minute::at(((h * 60 + m) * 60 + s) * 1000 + 999, 60_000);
        assert_eq!(at(19, 51, 0), at(19, 51, 59));
        assert_eq!(at(19, 51, 0), Minute(19 * 60 + 51));
        assert!(at(19, 50, 59) < at(19, 51, 0) && at(19, 51, 59) < at(19, 52, 0));
    }
}
