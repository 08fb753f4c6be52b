//! What waits for a worker, and for how long.
//!
//! Contract: the wait of an event that comes now is estimated as what waits before it times what one has lately taken. The
//! length of a queue alone does not tell: sixty thousand events are a second of small writes, and two minutes of handlers
//! that compute. Any thread may add; the worker alone takes and measures.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use crate::limits::MAX_QUEUE_TIME;

/// The mean follows so many of the latest measurements.
const MEMORY: u64 = 16;

/// Longest measurement that counts. A single poll that was stuck says little about the events behind it.
const LONGEST: Duration = Duration::from_millis(MAX_QUEUE_TIME.as_millis() as u64 / 8);

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: AtomicUsize,
    mean_nanos: AtomicU64,
}

impl Backlog {
    /// One more waits.
    pub(crate) fn add(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// One has been done, in this time.
    pub(crate) fn done(&self, took: Duration) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let took = took.min(LONGEST).as_nanos() as u64;
        let mean = self.mean_nanos.load(Ordering::Relaxed);
        let mean = mean - mean / MEMORY + took / MEMORY;
        self.mean_nanos.store(mean, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// True if an event that comes now would probably wait for too long.
    pub(crate) fn is_too_long(&self) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed) as u64;
        let mean = self.mean_nanos.load(Ordering::Relaxed);
        u128::from(waiting) * u128::from(mean) > MAX_QUEUE_TIME.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backlog(waiting: usize) -> Backlog {
        let backlog = Backlog::default();
        (0..waiting).for_each(|_| backlog.add());
        backlog
    }

    fn measured(backlog: &Backlog, times: usize, took: Duration) {
        for _ in 0..times {
            backlog.add();
            backlog.done(took);
        }
    }

    #[test]
    fn many_short_events_and_few_long_ones_wait_equally() {
        let (short, long) = (Duration::from_micros(20), Duration::from_millis(10));
        for (waiting, took, too_long) in [
            (40_000, short, false),
            (60_000, short, true),
            (80, long, false),
            (120, long, true),
        ] {
            let backlog = backlog(waiting);
            measured(&backlog, 200, took);
            assert_eq!(backlog.is_too_long(), too_long, "{waiting} of {took:?}");
        }
    }

    #[test]
    fn one_stuck_poll_refuses_nobody_behind_a_short_queue() {
        let backlog = backlog(100);
        measured(&backlog, 1, Duration::from_mins(1));
        assert!(!backlog.is_too_long());
    }

    #[test]
    fn an_empty_backlog_is_never_too_long() {
        let backlog = backlog(0);
        measured(&backlog, 200, Duration::from_mins(1));
        assert!(backlog.is_empty() && !backlog.is_too_long());
    }
}
