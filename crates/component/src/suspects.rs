//! Suspects: work that was in flight when the process crashed may be the cause. The last attempt at a suspect is made
//! alone: if the process crashes again, this work was the cause.
//!
//! Contract: while a suspect is attempted, nothing else of its component is in flight. Before it the others finish, and
//! after it they get as much time as they were stopped. This is in memory only: the component's rows record what must
//! be attempted alone.

/// Whether other work is stopped for a suspect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Since when other attempts do not begin.
    stopped: Option<i64>,
    /// Whether one is in flight.
    tried: bool,
    /// Before this time the others have their turn again.
    after: i64,
}

impl Suspects {
    /// When the next suspect may be attempted.
    pub fn after(self) -> i64 {
        self.after
    }

    /// True while other attempts do not begin.
    pub fn stop_others(self) -> bool {
        self.stopped.is_some()
    }

    /// True while one is in flight.
    pub fn is_tried(self) -> bool {
        self.tried
    }

    /// A suspect is to be attempted as soon as nothing else is in flight.
    #[must_use]
    pub fn wait(self, now: i64) -> Self {
        Self {
            stopped: self.stopped.or(Some(now)),
            ..self
        }
    }

    /// One is in flight.
    #[must_use]
    pub fn begin(self, now: i64) -> Self {
        Self {
            tried: true,
            ..self.wait(now)
        }
    }

    /// It has finished, or there is none any more.
    #[must_use]
    pub fn end(self, now: i64) -> Self {
        let stopped = self.stopped.map_or(0, |since| (now - since).max(0));
        Self {
            stopped: None,
            tried: false,
            after: now.saturating_add(stopped),
        }
    }

    /// The wall clock was set back.
    #[must_use]
    pub fn clock_went_back(self, now: i64) -> Self {
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
