//! A worker's timers, ordered by time.
//!
//! Each purpose has at most one entry; arming it again moves it, and entries of objects that are gone are disarmed. The
//! queue therefore stays as small as the set of objects.

use std::{collections::BTreeSet, time::Duration};

use abide_storage::ObjectKey;
use rustc_hash::FxHashMap;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Due {
    /// Check whether the object is idle, a handler too slow, or the gate closed for too long.
    Check(ObjectKey),
    /// Redeliver socket events of an object that could not be created.
    Retry(ObjectKey),
}

#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Duration, Due)>,
    times: FxHashMap<Due, Duration>,
}

impl Timers {
    /// Arms a timer, replacing its earlier time. Returns whether it is now the earliest.
    pub(crate) fn arm(&mut self, due: Due, at: Duration) -> bool {
        self.disarm(due);
        let earliest = self.next().is_none_or(|next| at < next);
        self.times.insert(due, at);
        self.queue.insert((at, due));
        earliest
    }

    pub(crate) fn disarm(&mut self, due: Due) {
        if let Some(at) = self.times.remove(&due) {
            self.queue.remove(&(at, due));
        }
    }

    /// The time of the next timer.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes one timer that is due.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        let (_, due) = self.queue.pop_first()?;
        self.times.remove(&due);
        Some(due)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use abide_storage::NamespaceNo;

    use super::*;

    fn key(number: u8) -> ObjectKey {
        ObjectKey {
            namespace: NamespaceNo(1),
            id: [number; 32],
        }
    }

    #[test]
    fn timers_come_due_in_order_and_tell_when_the_earliest_changes() {
        let mut timers = Timers::default();
        let second = Duration::from_secs;
        assert!(timers.arm(Due::Check(key(1)), second(3)));
        assert!(!timers.arm(Due::Check(key(2)), second(5)));
        assert!(timers.arm(Due::Retry(key(1)), second(1)));
        assert_eq!(timers.next(), Some(second(1)));
        assert_eq!(timers.pop_due(Duration::ZERO), None);
        assert_eq!(timers.pop_due(second(4)), Some(Due::Retry(key(1))));
        assert_eq!(timers.pop_due(second(4)), Some(Due::Check(key(1))));
        assert_eq!(timers.pop_due(second(4)), None);
    }

    #[test]
    fn arming_again_moves_the_entry_and_disarming_removes_it() {
        let mut timers = Timers::default();
        let second = Duration::from_secs;
        for at in [second(9), second(3), second(6)] {
            timers.arm(Due::Check(key(1)), at);
            assert_eq!((timers.len(), timers.next()), (1, Some(at)));
        }
        timers.arm(Due::Retry(key(1)), second(7));
        timers.disarm(Due::Check(key(1)));
        timers.disarm(Due::Check(key(2)));
        assert_eq!((timers.len(), timers.next()), (1, Some(second(7))));
    }
}
