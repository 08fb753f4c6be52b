//! The latest changes, so that a watcher that connects again continues where it was.
//!
//! Contract: a log is complete from its beginning until it is forgotten. It is in memory: it ends with the activation, and
//! a while after the last watcher left. Each log has its own number in its positions, which rises also when the
//! wall clock is set back, so the position of another log is never taken for one of this.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
};

use serde::{Serialize, Serializer};

use crate::limits;
use abide_component::numbers::millis;

/// Digits of a number in a position: any fits into its type.
const MAX_DIGITS: usize = 18;

/// A place between two changes, written `LOG-NUMBER`. Clients take it for an opaque text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    log: i64,
    /// The changes before it.
    after: u64,
}

impl Position {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (log, after) = text.split_once('-')?;
        let is_number = |text: &str| {
            (1..=MAX_DIGITS).contains(&text.len())
                && text.bytes().all(|digit| digit.is_ascii_digit())
        };
        if !(is_number(log) && is_number(after)) {
            return None;
        }
        Some(Self {
            log: log.parse().ok()?,
            after: after.parse().ok()?,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.log, self.after)
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The latest changes.
#[derive(Debug)]
pub(super) struct Log {
    number: i64,
    /// The number of the newest change.
    newest: u64,
    /// The newest change that is not kept.
    dropped: u64,
    /// Changed messages, each with the number of its change.
    entries: VecDeque<(u64, i64)>,
    /// Since when there has been no watcher.
    unwatched_since: Option<i64>,
}

impl Log {
    pub(super) fn new(number: i64) -> Self {
        Self {
            number,
            newest: 0,
            dropped: 0,
            entries: VecDeque::new(),
            unwatched_since: None,
        }
    }

    /// The place after the newest change.
    pub(super) fn position(&self) -> Position {
        Position {
            log: self.number,
            after: self.newest,
        }
    }

    /// Records that messages have changed; returns the place after that.
    pub(super) fn add(&mut self, messages: impl Iterator<Item = i64>) -> Position {
        self.newest += 1;
        let newest = self.newest;
        self.entries.extend(messages.map(|id| (newest, id)));
        while self.entries.len() > limits::MAX_LOGGED_CHANGES {
            if let Some((change, _)) = self.entries.pop_front() {
                self.dropped = change;
            }
        }
        self.position()
    }

    /// The messages that have changed since a place. `None` if that is not known, or if there are too many.
    pub(super) fn since(&self, place: Position) -> Option<BTreeSet<i64>> {
        let known = self.dropped..=self.newest;
        if place.log != self.number || !known.contains(&place.after) {
            return None;
        }
        let later = self.entries.iter().rev();
        let later = later.take_while(|(change, _)| *change > place.after);
        let messages: BTreeSet<i64> = later.map(|(_, id)| *id).collect();
        (messages.len() <= limits::MAX_RESUMED).then_some(messages)
    }

    pub(super) fn is_watched(&mut self) {
        self.unwatched_since = None;
    }

    /// Whether a watcher who has left may still come back.
    pub(super) fn is_awaited(&mut self, now: i64) -> bool {
        let since = *self.unwatched_since.get_or_insert(now);
        (since..since.saturating_add(millis(limits::RESUME_WITHIN))).contains(&now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_log_says_what_changed_since() {
        let mut log = Log::new(7);
        let start = log.position();
        let first = log.add([1, 2].into_iter());
        log.add([2, 3].into_iter());
        assert_eq!(log.since(start), Some([1, 2, 3].into()));
        assert_eq!(log.since(first), Some([2, 3].into()));
        assert_eq!(log.since(log.position()), Some([].into()));
        assert_eq!(Position::parse(&first.to_string()), Some(first));
        for other in ["8-0", "7-3"] {
            assert_eq!(log.since(Position::parse(other).unwrap()), None, "{other}");
        }
        for wrong in [
            "",
            "7",
            "7-",
            "x-1",
            "7--1",
            "+7-1",
            "7-1234567890123456789",
        ] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_log_no_longer_has_is_not_guessed() {
        let mut log = Log::new(1);
        let start = log.position();
        let most = i64::try_from(limits::MAX_LOGGED_CHANGES).unwrap();
        for id in 0..most {
            log.add([id % 10].into_iter());
        }
        assert_eq!(log.since(start).map(|some| some.len()), Some(10));
        let second = Position { log: 1, after: 1 };
        log.add([5].into_iter());
        assert_eq!(log.since(start), None);
        assert!(log.since(second).is_some());
        let place = log.position();
        let many = i64::try_from(limits::MAX_RESUMED).unwrap() + 1;
        log.add(0..many);
        assert_eq!(log.since(place), None, "it is too much");
    }

    #[test]
    fn a_log_lasts_a_while_after_its_last_watcher() {
        let mut log = Log::new(1);
        let while_ = millis(limits::RESUME_WITHIN);
        assert!(log.is_awaited(1_000));
        assert!(log.is_awaited(999 + while_));
        log.is_watched();
        assert!(log.is_awaited(1_000 + while_));
        assert!(!log.is_awaited(1_000 + 2 * while_));
        log.is_watched();
        assert!(log.is_awaited(5_000));
        assert!(!log.is_awaited(4_999), "a clock that was set back");
    }
}
