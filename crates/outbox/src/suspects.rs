//! Suspects: a message that was in flight when the process ended may be what ended it. One whose attempts would run out is
//! tried alone, so that if the process ends again, it was this one.
//!
//! Contract: while a suspect is tried, nothing else of the outbox is in flight. Before it the others come to their end, and after
//! it they have as long for themselves as they were stopped. This is in memory only: what is to be tried alone stands in the rows.

/// Who is stopped for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// Since when others do not begin.
    stopped: Option<i64>,
    /// Whether one is in flight.
    tried: bool,
    /// Before this time the others have their turn.
    after: i64,
}

impl Suspects {
    /// When the next may be tried.
    pub(super) fn after(self) -> i64 {
        self.after
    }

    /// True while others do not begin.
    pub(super) fn stop_others(self) -> bool {
        self.stopped.is_some()
    }

    /// True while one is in flight.
    pub(super) fn is_tried(self) -> bool {
        self.tried
    }

    /// One is to be tried as soon as nothing else is in flight.
    #[must_use]
    pub(super) fn wait(self, now: i64) -> Self {
        Self {
            stopped: self.stopped.or(Some(now)),
            ..self
        }
    }

    /// One is in flight.
    #[must_use]
    pub(super) fn begin(self, now: i64) -> Self {
        Self {
            tried: true,
            ..self.wait(now)
        }
    }

    /// It has come to its end, or there is none any more.
    #[must_use]
    pub(super) fn end(self, now: i64) -> Self {
        let stopped = self.stopped.map_or(0, |since| (now - since).max(0));
        Self {
            stopped: None,
            tried: false,
            after: now.saturating_add(stopped),
        }
    }

    /// The wall clock was set back.
    #[must_use]
    pub(super) fn clock_went_back(self, now: i64) -> Self {
        Self {
            stopped: self.stopped.map(|since| since.min(now)),
            after: self.after.min(now),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_as_long_for_themselves_as_they_were_stopped() {
        let suspects = Suspects::default().wait(1_000).wait(2_000).begin(3_000);
        assert!(suspects.stop_others() && suspects.is_tried());
        let suspects = suspects.end(6_000);
        assert!(!suspects.stop_others() && !suspects.is_tried());
        assert_eq!(suspects.after(), 11_000);
        assert_eq!(suspects.clock_went_back(500).after(), 500);
    }
}
