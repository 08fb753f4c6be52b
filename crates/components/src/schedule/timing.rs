//! When a timer goes off: its occurrences, as pure functions of time.
//!
//! Contract: occurrences are moments in milliseconds since 1970, and strictly increasing. [`Timing::after`] and
//! [`Timing::last`] agree: one finds going backward what the other finds going forward.
//!
//! In a time zone, local time may jump: [`Calendar`] defines what that means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{calendar::Calendar, limits};
use abide_component::numbers::millis;

/// When a timer goes off. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Once.
    Once {
        /// When. A time that has passed is now.
        at: i64,
    },
    /// Once, a time after it is set.
    After {
        /// The time, in milliseconds.
        wait: i64,
    },
    /// Repeatedly, after equal intervals.
    Interval {
        /// The interval, in milliseconds.
        every: i64,
        /// The anchor, if it matters: the first time, from which the others are counted. If it has passed, only future
        /// times count. By default the first time is one interval after the timer is set.
        start: Option<i64>,
    },
    /// By a cron expression.
    Cron {
        /// Minute, hour, day of the month, month, day of the week; optionally with leading seconds and a trailing year.
        /// `L`, `W` and `#` are supported, as in `0 9 L * *`. If both days are restricted, either of them counts; `+`
        /// before the day of the week requires both. Weekdays are 0 to 7, Sunday is 0 and 7.
        expression: String,
        /// A name of the time zone database, such as `Europe/Berlin` or `UTC`.
        zone: String,
    },
}

impl Timing {
    /// Refuses a timing that is invalid, or has no occurrence after a time.
    pub(super) fn check(&self, now: i64) -> Result<(), String> {
        match self {
            Self::Once { at } => in_time(*at),
            Self::After { wait } => {
                let max = millis(limits::MAX_INTERVAL);
                if (0..=max).contains(wait) {
                    return Ok(());
                }
                Err(format!(
                    "a timer goes off at most 100 years after it is set, not {wait} ms"
                ))
            }
            Self::Interval { every, start } => {
                let (min, max) = (millis(limits::MIN_INTERVAL), millis(limits::MAX_INTERVAL));
                if !(min..=max).contains(every) {
                    return Err(format!(
                        "an interval has {min} ms to 100 years, and this one {every} ms"
                    ));
                }
                start.map_or(Ok(()), in_time)
            }
            Self::Cron { expression, zone } => match Calendar::new(expression, zone)?.after(now)? {
                Some(_) => Ok(()),
                None => Err(format!("cron expression `{expression}` never matches")),
            },
        }
    }

    /// True if the timer may go off more than once.
    pub(super) fn repeats(&self) -> bool {
        !matches!(self, Self::Once { .. } | Self::After { .. })
    }

    /// True if the timer goes off once, a time after it is set.
    pub(super) fn is_relative(&self) -> bool {
        matches!(self, Self::After { .. })
    }

    /// The start of intervals for a timer that is set now.
    pub(super) fn anchor(&self, now: i64) -> i64 {
        match self {
            Self::Interval { every, start } => start.unwrap_or(now.saturating_add(*every)),
            Self::Once { .. } | Self::After { .. } | Self::Cron { .. } => now,
        }
    }

    /// The first occurrence of a timer that is set now.
    ///
    /// # Errors
    /// As of [`after`](Self::after).
    pub(super) fn first(&self, anchor: i64, now: i64) -> Result<Option<i64>, String> {
        match self {
            Self::Once { at } => Ok(Some(*at)),
            Self::After { wait } => Ok(Some(now.saturating_add(*wait))),
            Self::Interval { .. } if anchor >= now => Ok(Some(anchor)),
            Self::Interval { .. } | Self::Cron { .. } => self.after(anchor, now),
        }
    }

    /// The first occurrence after a time, if there is one before the year 10000. A cron expression has none after 4999.
    ///
    /// # Errors
    /// If it cannot be computed, for example because this machine does not know the time zone.
    pub(super) fn after(&self, anchor: i64, time: i64) -> Result<Option<i64>, String> {
        let next = match self {
            Self::Once { .. } | Self::After { .. } => None,
            Self::Interval { every, .. } => {
                let past = time.saturating_sub(anchor).div_euclid(*every);
                Some(anchor.saturating_add(every.saturating_mul(past.saturating_add(1))))
            }
            Self::Cron { expression, zone } => Calendar::new(expression, zone)?.after(time)?,
        };
        Ok(next.filter(|at| *at <= limits::MAX_TIME))
    }

    /// The last occurrence from `due`, which is one, up to a time.
    ///
    /// # Errors
    /// As of [`after`](Self::after).
    pub(super) fn last(&self, anchor: i64, due: i64, time: i64) -> Result<i64, String> {
        let last = match self {
            Self::Once { .. } | Self::After { .. } => None,
            Self::Interval { every, .. } => {
                let past = time.saturating_sub(anchor).div_euclid(*every);
                Some(anchor.saturating_add(every.saturating_mul(past)))
            }
            Self::Cron { expression, zone } => Calendar::new(expression, zone)?.last(due, time)?,
        };
        Ok(last.map_or(due, |last| last.max(due)))
    }
}

fn in_time(at: i64) -> Result<(), String> {
    if (0..=limits::MAX_TIME).contains(&at) {
        return Ok(());
    }
    Err(format!(
        "{at} is not between 1970 and the end of the year 9999, in milliseconds since 1970"
    ))
}

/// A duration as intervals have it.
pub(super) fn every(interval: Duration) -> i64 {
    millis(interval)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn cron(expression: &str, zone: &str) -> Timing {
        Timing::Cron {
            expression: expression.to_owned(),
            zone: zone.to_owned(),
        }
    }

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// The occurrences after a time, as a clock in UTC shows them.
    fn after(timing: &Timing, time: &str, count: usize) -> Vec<String> {
        let mut time = at(time);
        let mut found = Vec::new();
        for _ in 0..count {
            time = timing.after(0, time).unwrap().unwrap();
            found.push(Timestamp::from_millisecond(time).unwrap().to_string());
        }
        found
    }

    #[test]
    fn a_time_skipped_by_daylight_saving_goes_off_after_the_jump() {
        // On 29 March 2026 clocks in Berlin go from 02:00 to 03:00, which is 01:00 in UTC.
        let daily = cron("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            after(&daily, "2026-03-28T00:00:00Z", 3),
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z"
            ]
        );
        // A regular interval skips skipped times.
        let hourly = cron("30 * * * *", "Europe/Berlin");
        assert_eq!(
            after(&hourly, "2026-03-29T00:00:00Z", 3),
            [
                "2026-03-29T00:30:00Z",
                "2026-03-29T01:30:00Z",
                "2026-03-29T02:30:00Z"
            ]
        );
    }

    #[test]
    fn a_repeated_hour_fires_a_time_once_and_an_interval_twice() {
        // On 25 October 2026 clocks in Berlin go from 03:00 to 02:00, which is 01:00 in UTC.
        let daily = cron("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            after(&daily, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let hourly = cron("30 * * * *", "Europe/Berlin");
        assert_eq!(
            after(&hourly, "2026-10-25T00:00:00Z", 3),
            [
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:30:00Z"
            ]
        );
    }

    #[test]
    fn going_back_finds_what_going_forward_finds() {
        // Both days on which the clocks jump, minute by minute, and a leap day.
        let timings = [
            cron("30 2 * * *", "Europe/Berlin"),
            cron("*/20 * * * *", "Europe/Berlin"),
            cron("0 */2 * * *", "America/New_York"),
            cron("15 1,2,3 * * *", "America/New_York"),
            cron("*/30 2 * * *", "Europe/Berlin"),
            cron("0 0 29 2 *", "UTC"),
            cron("0 9 L * *", "Asia/Tokyo"),
            Timing::Interval {
                every: 3_600_000,
                start: None,
            },
        ];
        for timing in timings {
            for day in [
                "2026-03-08",
                "2026-03-29",
                "2026-10-25",
                "2026-11-01",
                "2028-02-29",
            ] {
                let begin = at(&format!("{day}T00:00:00Z")) - 7_200_000;
                let due = timing.after(0, begin).unwrap().unwrap();
                let mut last = due;
                for minute in (0..30 * 60).step_by(10) {
                    let now = begin + minute * 60_000;
                    while let Some(next) =
                        timing.after(0, last).unwrap().filter(|next| *next <= now)
                    {
                        last = next;
                    }
                    assert_eq!(timing.last(0, due, now), Ok(last), "{timing:?} at {now}");
                }
            }
        }
    }

    #[test]
    fn invalid_input_is_refused_with_what_is_expected() {
        let wrong = |timing: Timing| timing.check(at("2026-01-01T00:00:00Z")).unwrap_err();
        assert!(wrong(cron("0 9 * *", "UTC")).contains("`0 9 * *` cannot be read"));
        assert!(wrong(cron("61 9 * * *", "UTC")).contains("cannot be read"));
        assert!(wrong(cron("", "UTC")).contains("cannot be read"));
        assert!(wrong(cron("0 0 30 2 *", "UTC")).contains("never matches"));
        assert!(wrong(cron("0 9 * * *", "Europe/Atlantis")).contains("Europe/Berlin"));
        assert!(wrong(cron(&"1,".repeat(200), "UTC")).contains("255 bytes"));
        let none = Timing::Interval {
            every: 0,
            start: None,
        };
        assert!(wrong(none).contains("100 ms"));
        assert!(wrong(Timing::Once { at: -1 }).contains("1970"));
        assert!(wrong(Timing::Once { at: i64::MAX }).contains("9999"));
    }

    #[test]
    fn intervals_are_counted_from_their_start_and_do_not_drift() {
        let timing = Timing::Interval {
            every: 1_000,
            start: Some(500),
        };
        assert_eq!(timing.first(timing.anchor(100), 100), Ok(Some(500)));
        assert_eq!(timing.first(timing.anchor(700), 700), Ok(Some(1_500)));
        assert_eq!(timing.after(500, 1_500), Ok(Some(2_500)));
        assert_eq!(timing.last(500, 500, 3_499), Ok(2_500));
        let plain = Timing::Interval {
            every: 1_000,
            start: None,
        };
        assert_eq!(plain.first(plain.anchor(100), 100), Ok(Some(1_100)));
        let last = Timing::Interval {
            every: 1_000,
            start: Some(limits::MAX_TIME),
        };
        assert_eq!(last.after(limits::MAX_TIME, limits::MAX_TIME), Ok(None));
    }
}
