//! A timer as it is set.

use std::time::Duration;

use abide::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{
    RetryPolicy, ScheduleError, limits,
    options::check_retry,
    timing::{Timing, every},
};

/// A timer as it is set: when it goes off, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// What it is for, by which a handler tells timers apart: 1 to 64 bytes.
    pub kind: String,
    /// When it goes off.
    pub timing: Timing,
    /// A JSON text that its handler is given; at most 64 KiB. Default `null`.
    pub metadata: String,
    /// What becomes of occurrences that were missed.
    pub misfire: Misfire,
    /// What becomes of an occurrence that comes before the one before has ended.
    pub overlap: Overlap,
    /// When failed attempts are repeated. `None`: as the schedule's options say.
    pub retry: Option<RetryPolicy>,
}

impl Spec {
    /// Goes off once, at a time in milliseconds since 1970. One that has passed is now.
    pub fn once(kind: impl Into<String>, at: i64) -> Self {
        Self::new(kind, Timing::Once { at })
    }

    /// Goes off again and again, the first time after one interval of 100 ms to 100 years.
    pub fn every(kind: impl Into<String>, interval: Duration) -> Self {
        let timing = Timing::Interval {
            every: every(interval),
            start: None,
        };
        Self::new(kind, timing)
    }

    /// Goes off when a [cron expression](Timing::Cron) says, by the clocks of a time zone.
    ///
    /// ```
    /// use abide::schedule::Spec;
    ///
    /// let report = Spec::cron("report", "0 9 * * MON-FRI", "Europe/Berlin");
    /// ```
    pub fn cron(
        kind: impl Into<String>,
        expression: impl Into<String>,
        zone: impl Into<String>,
    ) -> Self {
        let timing = Timing::Cron {
            expression: expression.into(),
            zone: zone.into(),
        };
        Self::new(kind, timing)
    }

    fn new(kind: impl Into<String>, timing: Timing) -> Self {
        Self {
            kind: kind.into(),
            timing,
            metadata: "null".to_owned(),
            misfire: Misfire::default(),
            overlap: Overlap::default(),
            retry: None,
        }
    }

    /// Counts intervals from a time in milliseconds since 1970. Nothing to a timer without intervals.
    #[must_use]
    pub fn starting(mut self, at: i64) -> Self {
        if let Timing::Interval { start, .. } = &mut self.timing {
            *start = Some(at);
        }
        self
    }

    /// Sets [`metadata`](Self::metadata) to a value's JSON.
    pub fn metadata<T: Serialize + ?Sized>(mut self, metadata: &T) -> Result<Self> {
        self.metadata = serde_json::to_string(metadata).map_err(Error::from_std)?;
        Ok(self)
    }

    /// Sets [`misfire`](Self::misfire).
    #[must_use]
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Sets [`overlap`](Self::overlap).
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets [`retry`](Self::retry).
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The first times after a time at which a timer goes off that is set then, at most so many: a preview. Times are
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`] if a time cannot be known.
    pub fn preview(&self, now: i64, most: usize) -> Result<Vec<i64>, ScheduleError> {
        let anchor = self.timing.anchor(now);
        let mut next = self.timing.first(anchor, now);
        let mut times = Vec::new();
        while times.len() < most {
            let Some(time) = next.map_err(ScheduleError::Invalid)? else {
                break;
            };
            times.push(time);
            next = self.timing.after(anchor, time);
        }
        Ok(times)
    }

    /// Refuses what [`Schedule::upsert`](super::Schedule::upsert) would refuse at this time, in milliseconds since 1970: for
    /// programs that look before they make anything.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`], whose text says what would do.
    pub fn check(&self, now: i64) -> Result<(), ScheduleError> {
        let invalid = |text: String| Err(ScheduleError::Invalid(text));
        if !(1..=limits::MAX_KIND_BYTES).contains(&self.kind.len()) {
            return invalid(format!(
                "the kind has {} bytes: give it 1 to {}",
                self.kind.len(),
                limits::MAX_KIND_BYTES
            ));
        }
        if self.metadata.len() > limits::MAX_METADATA_BYTES {
            return invalid(format!(
                "the metadata has {} bytes and at most {} are taken: keep what is large in storage",
                self.metadata.len(),
                limits::MAX_METADATA_BYTES
            ));
        }
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&self.metadata) {
            return invalid(format!("the metadata is not JSON: {error}"));
        }
        self.retry
            .as_ref()
            .map_or(Ok(()), check_retry)
            .and_then(|()| self.timing.check(now))
            .map_err(ScheduleError::Invalid)
    }
}

/// What becomes of occurrences that were missed, because the node did not run, or was late by more than
/// [`Options::grace`](super::Options::grace).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// However many were missed, the last of them goes off.
    #[default]
    Once,
    /// Each goes off, one after the other, oldest first.
    All,
    /// None goes off: the timer waits for its next time. A timer that goes off once has ended.
    Skip,
}

/// What becomes of an occurrence that comes before the one before has ended, its retries included. One that has failed for
/// good has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is left out.
    #[default]
    Skip,
    /// It goes off when the one before has ended. However many come meanwhile, one goes off, unless [`Misfire::All`] wants
    /// each.
    Queue,
    /// Both run at a time.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_the_times_at_which_the_timer_will_go_off() {
        let hourly = Spec::every("tick", Duration::from_hours(1)).starting(7_000);
        assert_eq!(
            hourly.preview(5_000, 3).unwrap(),
            [7_000, 3_607_000, 7_207_000]
        );
        let daily = Spec::cron("tick", "0 0 * * *", "UTC");
        assert_eq!(daily.preview(1, 2).unwrap(), [86_400_000, 172_800_000]);
        assert_eq!(Spec::once("tick", 9).preview(5, 3).unwrap(), [9]);
        assert!(Spec::cron("tick", "0 0 * *", "UTC").preview(0, 1).is_err());
    }
}
