//! What a worker has to look at later, ordered by time.
//!
//! Entries are never taken back: whoever is due decides whether it still matters. An object has one entry for
//! its own check, one for each time it closes its gate and one for socket events that are put off, so the queue stays as
//! small as the set of objects.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    rc::Weak,
    time::Duration,
};

use abide_storage::ObjectKey;

use crate::{gate::Token, object::Object};

/// What is due.
pub(crate) enum Due {
    /// Is the object idle, or a handler too slow?
    Check(Weak<Object>),
    /// Does this task of the object still keep the gate closed?
    Gate(Weak<Object>, Token),
    /// Socket events of an object that could not be made go to it again.
    Retry(ObjectKey),
}

struct Timer {
    at: Duration,
    due: Due,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

#[derive(Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<Timer>>);

impl Timers {
    /// Adds an entry. True if it is now the earliest.
    pub(crate) fn add(&mut self, at: Duration, due: Due) -> bool {
        let earliest = self.next().is_none_or(|next| at < next);
        self.0.push(Reverse(Timer { at, due }));
        earliest
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.0.peek().map(|Reverse(timer)| timer.at)
    }

    /// Takes one entry that is due.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_in_order_and_tell_when_the_earliest_changes() {
        let mut timers = Timers::default();
        let second = Duration::from_secs;
        assert!(timers.add(second(3), Due::Check(Weak::new())));
        assert!(!timers.add(second(5), Due::Check(Weak::new())));
        assert!(timers.add(second(1), Due::Gate(Weak::new(), Token(7))));
        assert_eq!(timers.next(), Some(second(1)));
        assert!(timers.pop_due(Duration::ZERO).is_none());
        let first = timers.pop_due(second(4));
        assert!(matches!(first, Some(Due::Gate(_, Token(7)))));
        assert!(matches!(timers.pop_due(second(4)), Some(Due::Check(_))));
        assert!(timers.pop_due(second(4)).is_none());
    }
}
