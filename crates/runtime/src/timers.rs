//! What a worker has to look at later, ordered by time.
//!
//! Entries are never taken back: whoever is due decides whether it still matters. An object has one entry for
//! its own check and one for each time it closes its gate, so the queue stays as small as the set of objects.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    rc::Weak,
    time::Duration,
};

use crate::{gate::Token, object::Object};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Is the object idle, or a handler too slow?
    Check,
    /// Does this task still keep the gate closed?
    Gate(Token),
}

pub(crate) struct Timer {
    at: Duration,
    pub(crate) object: Weak<Object>,
    pub(crate) due: Due,
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
    pub(crate) fn add(&mut self, at: Duration, object: Weak<Object>, due: Due) -> bool {
        let earliest = self.next().is_none_or(|next| at < next);
        self.0.push(Reverse(Timer { at, object, due }));
        earliest
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.0.peek().map(|Reverse(timer)| timer.at)
    }

    /// Takes one entry that is due.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_in_order_and_tell_when_the_earliest_changes() {
        let mut timers = Timers::default();
        let second = Duration::from_secs;
        assert!(timers.add(second(3), Weak::new(), Due::Check));
        assert!(!timers.add(second(5), Weak::new(), Due::Check));
        assert!(timers.add(second(1), Weak::new(), Due::Gate(Token(7))));
        assert_eq!(timers.next(), Some(second(1)));
        assert!(timers.pop_due(Duration::ZERO).is_none());
        assert_eq!(
            timers.pop_due(second(4)).map(|timer| timer.due),
            Some(Due::Gate(Token(7)))
        );
        assert_eq!(
            timers.pop_due(second(4)).map(|timer| timer.due),
            Some(Due::Check)
        );
        assert!(timers.pop_due(second(4)).is_none());
    }
}
