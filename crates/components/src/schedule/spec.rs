//! The spec of a timer.

use std::time::Duration;

use abide::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{
    RetryPolicy, ScheduleError, limits,
    options::check_retry,
    timing::{Timing, every},
};
use abide_component::numbers::millis;

/// The spec of a timer: when it goes off, and for what purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its purpose, by which a handler distinguishes timers: 1 to 64 bytes.
    pub kind: String,
    /// When it goes off.
    pub timing: Timing,
    /// A JSON text that its handler receives; at most 64 KiB. Default `null`.
    pub metadata: String,
    /// What happens to missed occurrences.
    pub misfire: Misfire,
    /// What happens to an occurrence that becomes due before the previous one has finished.
    pub overlap: Overlap,
    /// When failed attempts are retried. `None`: as in the schedule's options.
    pub retry: Option<RetryPolicy>,
}

impl Spec {
    /// Goes off once, at a time in milliseconds since 1970; at once if that has passed.
    pub fn once(kind: impl Into<String>, at: i64) -> Self {
        Self::new(kind, Timing::Once { at })
    }

    /// Goes off once, this long after the timer is set, by the clock of the object's node; at most 100 years.
    ///
    /// Setting it again to the same spec while it waits changes nothing. Once it has ended, setting it starts the wait
    /// again, so do not set it in a constructor.
    pub fn after(kind: impl Into<String>, wait: Duration) -> Self {
        Self::new(kind, Timing::After { wait: millis(wait) })
    }

    /// Goes off repeatedly, the first time after one interval of 100 ms to 100 years.
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

    /// Counts intervals from a time in milliseconds since 1970. Without effect on a timer without intervals.
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

    /// The first times at which a timer goes off that is set at `now`, at most `most` of them. Times are milliseconds since
    /// 1970.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`] if a time cannot be computed.
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

    /// Validates the spec as [`Schedule::upsert`](super::Schedule::upsert) does at `now`, in milliseconds since 1970, without
    /// writing anything.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`], whose text says what is allowed.
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
                "the metadata has {} bytes; at most {} are accepted: store large data elsewhere",
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

/// What happens to occurrences that were missed, because the node did not run, or was late by more than
/// [`ScheduleOptions::grace`](super::ScheduleOptions::grace).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// However many were missed, only the last goes off.
    #[default]
    Once,
    /// Each goes off, one at a time, oldest first.
    All,
    /// None goes off: the timer waits for its next time. A one-shot timer is finished.
    Skip,
}

/// What happens to an occurrence that becomes due before the previous one has finished, including its retries. A
/// permanently failed one has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// It goes off when the previous one has finished. Of several, only one goes off, unless [`Misfire::All`] wants
    /// each.
    Queue,
    /// Both run concurrently.
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
