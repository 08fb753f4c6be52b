//! Suspects: work that was in flight when the process crashed may be the cause. The last attempt at a suspect is made
//! alone: if the process crashes again, this work was the cause.
//!
//! Contract: while a suspect is attempted, nothing else of its component is in flight. Before it the others finish, and
//! after it they get as much time as they were stopped. This is in memory only: the component's rows record what must
//! be attempted alone.

use std::cell::Cell;

/// Whether other work is stopped for a suspect.
#[derive(Debug, Default)]
pub struct Suspects(Cell<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Since when other attempts do not begin.
    stopped: Option<i64>,
    /// Whether one is in flight.
    tried: bool,
    /// Before this time the others have their turn again.
    after: i64,
}

/// What may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayBegin<T> {
    /// This suspect, and nothing else.
    Suspect(T),
    /// Anything but suspects.
    Others,
    /// Nothing, until an attempt has finished: a suspect is in flight, or waits for what is.
    Nothing,
}

impl Suspects {
    /// What may begin now, if this is the first suspect that is due. A suspect that may begin counts as in flight until
    /// it [ends](Self::end), or nothing is in flight any more.
    pub fn next<T>(&self, due: Option<T>, is_idle: bool, now: i64) -> MayBegin<T> {
        if self.0.get().tried {
            if !is_idle {
                return MayBegin::Nothing;
            }
            // It was dropped.
            self.end(now);
        }
        let state = self.0.get();
        match due {
            Some(_) if state.after > now => MayBegin::Others,
            Some(suspect) => {
                self.0.set(State {
                    stopped: state.stopped.or(Some(now)),
                    tried: is_idle,
                    ..state
                });
                if is_idle {
                    MayBegin::Suspect(suspect)
                } else {
                    MayBegin::Nothing
                }
            }
            None => {
                if state.stopped.is_some() {
                    self.end(now);
                }
                MayBegin::Others
            }
        }
    }

    /// The suspect has finished, or there is none any more.
    pub fn end(&self, now: i64) {
        let stopped = self.0.get().stopped;
        let stopped = stopped.map_or(0, |since| (now - since).max(0));
        self.0.set(State {
            after: now.saturating_add(stopped),
            ..State::default()
        });
    }

    /// When the next suspect may be attempted.
    pub fn after(&self) -> i64 {
        self.0.get().after
    }

    /// True while other attempts do not begin.
    pub fn stop_others(&self) -> bool {
        self.0.get().stopped.is_some()
    }

    /// The wall clock was set back.
    pub fn clock_went_back(&self, now: i64) {
        let state = self.0.get();
        self.0.set(State {
            stopped: state.stopped.map(|since| since.min(now)),
            after: state.after.min(now),
            ..state
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_as_long_for_themselves_as_they_were_stopped() {
        let suspects = Suspects::default();
        let next = |is_idle, now| suspects.next(Some("a"), is_idle, now);
        assert_eq!(next(false, 1_000), MayBegin::Nothing);
        assert_eq!(next(false, 2_000), MayBegin::Nothing);
        assert_eq!(next(true, 3_000), MayBegin::Suspect("a"));
        assert_eq!(next(false, 4_000), MayBegin::Nothing);
        assert!(suspects.stop_others());
        suspects.end(6_000);
        assert!(!suspects.stop_others());
        assert_eq!(suspects.after(), 11_000);
        assert_eq!(next(true, 10_999), MayBegin::Others);
        suspects.clock_went_back(500);
        assert_eq!(suspects.after(), 500);
        assert_eq!(next(true, 500), MayBegin::Suspect("a"));
    }

    #[test]
    fn a_suspect_that_was_dropped_or_is_gone_stops_nothing() {
        let suspects = Suspects::default();
        assert_eq!(suspects.next(Some(1), true, 0), MayBegin::Suspect(1));
        assert_eq!(suspects.next(Some(2), true, 10), MayBegin::Others);
        assert_eq!(suspects.next(Some(2), false, 20), MayBegin::Nothing);
        assert_eq!(suspects.next::<i64>(None, false, 30), MayBegin::Others);
        assert!(!suspects.stop_others());
    }
}
