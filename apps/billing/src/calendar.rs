//! The periods of a subscription.
//!
//! Contract: periods are counted from a fixed moment, the anchor, and each is computed from the anchor and its number,
//! never from the previous period. Nothing drifts: monthly from January 31 is February 28 (or 29), then March 31. The
//! calendar is UTC. A period begins where the previous one ended; together they cover all time from the anchor on,
//! without gaps and overlaps.

use jiff::{Span, Timestamp, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Time;

/// Maximum number of units in a period: ten years of days.
const MAX_COUNT: u16 = 3_660;

/// The unit of a period's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// 24 hours.
    Day,
    /// Seven days.
    Week,
    /// A calendar month. A day that the month does not have becomes its last day.
    Month,
    /// A calendar year. February 29 becomes February 28 in most of them.
    Year,
}

/// How often a period begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Every {
    /// The number of units in a period: 3 of [`Unit::Month`] is a quarter. At least 1.
    pub count: u16,
    /// The unit.
    pub unit: Unit,
}

impl Every {
    /// A month.
    pub const MONTH: Self = Self {
        count: 1,
        unit: Unit::Month,
    };

    /// A year.
    pub const YEAR: Self = Self {
        count: 1,
        unit: Unit::Year,
    };

    /// Rejects a length that is no longer accepted.
    pub fn check(self) -> Result<(), CalendarError> {
        if !(1..=MAX_COUNT).contains(&self.count) {
            return Err(CalendarError::Count(self.count));
        }
        Ok(())
    }

    fn span(self, periods: u32) -> Result<Span, CalendarError> {
        if self.count == 0 {
            return Err(CalendarError::Count(self.count));
        }
        let units = i64::from(self.count) * i64::from(periods);
        let span = Span::new();
        match self.unit {
            Unit::Day => span.try_days(units),
            Unit::Week => span.try_weeks(units),
            Unit::Month => span.try_months(units),
            Unit::Year => span.try_years(units),
        }
        .map_err(|_| CalendarError::TooFar)
    }
}

/// Why there is no such period.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CalendarError {
    /// A period of no length, or too long a one.
    #[error("A period must have 1 to {MAX_COUNT} units; this one has {0}.")]
    Count(u16),
    /// After the end of the calendar.
    #[error("There is no such period before the year 10000.")]
    TooFar,
}

/// The moment from which the periods of a subscription are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Anchor {
    /// The start of period 0, a whole second.
    at: Time,
    every: Every,
}

/// A period: from its start, inclusive, to its end, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Period {
    /// 0 for the one that begins at the anchor.
    pub number: u32,
    /// Its first moment.
    pub start: Time,
    /// The first moment of the next.
    pub end: Time,
}

impl Period {
    /// Returns whether the period contains the moment.
    pub fn contains(&self, at: Time) -> bool {
        (self.start..self.end).contains(&at)
    }
}

impl Anchor {
    /// Periods from this moment, truncated to the second.
    pub fn new(at: Time, every: Every) -> Result<Self, CalendarError> {
        every.check()?;
        let anchor = Self::of(at, every);
        anchor.start(1)?;
        Ok(anchor)
    }

    /// The same for a value that was accepted earlier.
    pub(crate) fn of(at: Time, every: Every) -> Self {
        Self {
            at: at.whole_second(),
            every,
        }
    }

    /// The start of period 0.
    pub fn at(&self) -> Time {
        self.at
    }

    /// How often a period begins.
    pub fn every(&self) -> Every {
        self.every
    }

    /// The start of a period.
    pub fn start(&self, number: u32) -> Result<Time, CalendarError> {
        let start = self.civil()?.checked_add(self.every.span(number)?);
        let start = start.map_err(|_| CalendarError::TooFar)?;
        let start = start.to_zoned(TimeZone::UTC);
        let start = start.map_err(|_| CalendarError::TooFar)?;
        Ok(Time(start.timestamp().as_millisecond()))
    }

    /// A period.
    pub fn period(&self, number: u32) -> Result<Period, CalendarError> {
        let next = number.checked_add(1).ok_or(CalendarError::TooFar)?;
        Ok(Period {
            number,
            start: self.start(number)?,
            end: self.start(next)?,
        })
    }

    /// The period that contains a moment; none before the anchor.
    pub fn period_at(&self, at: Time) -> Result<Option<Period>, CalendarError> {
        if at < self.at {
            return Ok(None);
        }
        // No period is shorter than this, so this is an upper bound for the number.
        let shortest: i64 = match self.every.unit {
            Unit::Day => 24,
            Unit::Week => 7 * 24,
            Unit::Month => 28 * 24,
            Unit::Year => 365 * 24,
        };
        let shortest = shortest * 60 * 60 * i64::from(self.every.count);
        let above = (at.seconds() - self.at.seconds()) / shortest;
        let (mut low, mut above) = (0, u32::try_from(above).unwrap_or(u32::MAX - 1) + 1);
        while above - low > 1 {
            let middle = low + (above - low) / 2;
            match self.start(middle) {
                Ok(start) if start <= at => low = middle,
                Ok(_) | Err(CalendarError::TooFar) => above = middle,
                Err(wrong) => return Err(wrong),
            }
        }
        self.period(low).map(Some)
    }

    fn civil(&self) -> Result<DateTime, CalendarError> {
        let at = Timestamp::from_millisecond(self.at.0).map_err(|_| CalendarError::TooFar)?;
        Ok(TimeZone::UTC.to_datetime(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Time {
        Time(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn starts(from: &str, every: Every, periods: u32) -> Vec<String> {
        let anchor = Anchor::new(time(from), every).unwrap();
        (0..periods)
            .map(|number| anchor.start(number).unwrap().to_string()[..10].to_owned())
            .collect()
    }

    #[test]
    fn a_month_from_the_31st_ends_on_each_months_last_day_and_does_not_drift() {
        assert_eq!(
            starts("2027-12-31T10:00:00Z", Every::MONTH, 6),
            [
                "2027-12-31",
                "2028-01-31",
                "2028-02-29",
                "2028-03-31",
                "2028-04-30",
                "2028-05-31"
            ]
        );
    }

    #[test]
    fn a_year_from_a_leap_day_comes_back_to_it() {
        assert_eq!(
            starts("2024-02-29T00:00:00Z", Every::YEAR, 5),
            [
                "2024-02-29",
                "2025-02-28",
                "2026-02-28",
                "2027-02-28",
                "2028-02-29"
            ]
        );
    }

    #[test]
    fn a_period_of_nothing_and_one_beyond_the_calendar_are_refused() {
        let none = Every {
            count: 0,
            unit: Unit::Day,
        };
        assert_eq!(Anchor::new(Time(0), none), Err(CalendarError::Count(0)));
        let anchor = Anchor::new(Time(0), Every::YEAR).unwrap();
        assert_eq!(anchor.start(9_000), Err(CalendarError::TooFar));
        assert_eq!(anchor.period(u32::MAX), Err(CalendarError::TooFar));
        assert_eq!(anchor.period_at(Time(-1)), Ok(None));
    }

    fn any_every() -> impl Strategy<Value = Every> {
        let units = [Unit::Day, Unit::Week, Unit::Month, Unit::Year];
        (1_u16..=6, prop::sample::select(units.to_vec()))
            .prop_map(|(count, unit)| Every { count, unit })
    }

    proptest! {
        #[test]
        fn periods_cover_all_time_without_gap_or_overlap(
            at in 0_i64..4_000_000_000_000,
            every in any_every(),
            number in 0_u32..500,
        ) {
            let anchor = Anchor::new(Time(at), every).unwrap();
            let period = anchor.period(number).unwrap();
            prop_assert!(period.start < period.end);
            prop_assert_eq!(period.end, anchor.period(number + 1).unwrap().start);
            for inside in [period.start, Time(period.end.0 - 1)] {
                prop_assert_eq!(anchor.period_at(inside).unwrap(), Some(period));
            }
        }

        #[test]
        fn a_monthly_period_begins_on_the_anchors_day_or_on_the_months_last(
            at in 0_i64..4_000_000_000_000,
            number in 0_u32..500,
        ) {
            let anchor = Anchor::new(Time(at), Every::MONTH).unwrap();
            let civil = |time: Time| {
                TimeZone::UTC.to_datetime(Timestamp::from_millisecond(time.0).unwrap())
            };
            let (first, this) = (civil(anchor.at()), civil(anchor.start(number).unwrap()));
            prop_assert_eq!(first.time(), this.time());
            let months = |date: DateTime| i64::from(date.year()) * 12 + i64::from(date.month());
            prop_assert_eq!(months(this) - months(first), i64::from(number));
            prop_assert_eq!(this.day(), first.day().min(this.date().days_in_month()));
        }
    }
}
