//! A worker's backlog: how much waits for it, and for how long.
//!
//! Contract: the wait of an arriving event is estimated as the number of events before it times the recent mean
//! duration of one. The length of a queue alone is not enough: sixty thousand events are a second of small writes, or
//! two minutes of handlers that compute. Any thread may add events; only the worker removes them and measures.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use crate::limits::MAX_QUEUE_TIME;

/// The amount of work after which the mean is recomputed. A mean over a number of events, instead of an amount of work,
/// would generalize from one short event that was delayed (by a disk, by another process), and reject a long queue of
/// short ones.
const SPAN: Duration = Duration::from_millis(MAX_QUEUE_TIME.as_millis() as u64 / 4);

/// The longest measurement that counts. A single stuck poll says little about the events queued after it.
const LONGEST: Duration = Duration::from_millis(MAX_QUEUE_TIME.as_millis() as u64 / 8);

/// The number of events in the current span after which their mean counts if it is lower than the previous one.
const ENOUGH: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: AtomicUsize,
    /// The mean duration of an event, as far as is known; 0 before the first span has ended.
    mean_nanos: AtomicU64,
    /// The current span: its work, and its number of events.
    nanos: AtomicU64,
    events: AtomicU64,
}

impl Backlog {
    /// Adds an event.
    pub(crate) fn add(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an event that took this long.
    pub(crate) fn done(&self, took: Duration) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let took = took.min(LONGEST).as_nanos() as u64;
        let nanos = self.nanos.load(Ordering::Relaxed) + took;
        let events = self.events.load(Ordering::Relaxed) + 1;
        let mean = nanos / events;
        let ends = u128::from(nanos) >= SPAN.as_nanos();
        let is_shorter = events >= ENOUGH && mean < self.mean_nanos.load(Ordering::Relaxed);
        if ends || is_shorter {
            self.mean_nanos.store(mean, Ordering::Relaxed);
        }
        let (nanos, events) = if ends { (0, 0) } else { (nanos, events) };
        self.nanos.store(nanos, Ordering::Relaxed);
        self.events.store(events, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Returns whether an event that arrives now would probably wait too long.
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
            measured(&backlog, 20_000, took);
            assert_eq!(backlog.is_too_long(), too_long, "{waiting} of {took:?}");
        }
    }

    #[test]
    fn one_stuck_poll_refuses_no_event_behind_a_short_queue() {
        let backlog = backlog(100);
        measured(&backlog, 1, Duration::from_mins(1));
        assert!(!backlog.is_too_long());
    }

    #[test]
    fn occasional_delays_refuse_no_short_event_behind_a_long_queue() {
        let backlog = backlog(10_000);
        for _ in 0..100 {
            measured(&backlog, 1_000, Duration::from_micros(10));
            measured(&backlog, 1, Duration::from_millis(20));
            assert!(!backlog.is_too_long());
        }
    }

    #[test]
    fn short_events_after_long_ones_are_soon_believed() {
        let backlog = backlog(1_000);
        measured(&backlog, 100, Duration::from_millis(10));
        assert!(backlog.is_too_long());
        measured(&backlog, 100, Duration::from_micros(10));
        assert!(!backlog.is_too_long());
    }

    #[test]
    fn an_empty_backlog_is_never_too_long() {
        let backlog = backlog(0);
        measured(&backlog, 200, Duration::from_mins(1));
        assert!(backlog.is_empty() && !backlog.is_too_long());
    }
}
