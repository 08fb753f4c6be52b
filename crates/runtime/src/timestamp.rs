//! Points in time, as whole milliseconds since 1970.

use std::{
    fmt,
    ops::{Add, Sub},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use abide_storage::{Param, ToSql, ToSqlError};
use serde::{Deserialize, Serialize};

/// A point in time: whole milliseconds since 1970-01-01T00:00:00Z. Serializes as that number, and SQL stores that number.
///
/// Converts from [`SystemTime`] and [`jiff::Timestamp`]; what is less than a millisecond is cut off.
///
/// ```
/// # use abide_runtime as abide;
/// use abide::Timestamp;
///
/// let opens = Timestamp::from("2026-12-01T08:30:00Z".parse::<jiff::Timestamp>().unwrap());
/// assert_eq!(opens.to_string(), "2026-12-01T08:30:00.000Z");
/// assert_eq!(opens.unix_millis(), 1_796_113_800_000);
/// assert_eq!((opens - std::time::Duration::from_secs(1)).since(opens), std::time::Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time this many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_millis(self) -> i64 {
        self.0
    }

    /// The same time as the standard library's type.
    pub fn system_time(self) -> SystemTime {
        let since = Duration::from_millis(self.0.unsigned_abs());
        if self.0 < 0 {
            UNIX_EPOCH - since
        } else {
            UNIX_EPOCH + since
        }
    }

    /// The time since an earlier one; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Milliseconds since 1970, as a commit stores them; times before 1970 become 1970.
    pub(crate) fn of_a_commit(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, such as `2026-12-01T08:30:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A civil time, since jiff's timestamps end some hours before the end of the year 9999.
        let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
        match epoch.checked_add(jiff::SignedDuration::from_millis(self.0)) {
            Ok(time) => write!(f, "{time:.3}Z"),
            // Beyond the range of the calendar.
            Err(_) => write!(f, "{} ms since 1970", self.0),
        }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the bounds of the type.
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(millis(time)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the bounds of the type.
    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(millis(time)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let millis = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        })
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        Self(time.as_millisecond())
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        Ok(self.0.into())
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        time.system_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_ALARM_UNIX_MILLIS;

    #[test]
    fn a_time_is_written_as_rfc_3339_has_it() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_000_000_000_000, "2096-10-02T07:06:40.000Z"),
            (MAX_ALARM_UNIX_MILLIS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_unix_millis(millis).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let (time, hour) = (Timestamp::from_unix_millis(5), Duration::from_hours(1));
        assert_eq!((time + hour).unix_millis(), 3_600_005);
        assert_eq!((time - hour).unix_millis(), 5 - 3_600_000);
        assert_eq!((time + hour).since(time), hour);
        assert_eq!(time.since(time + hour), Duration::ZERO);
        let (first, last) = (
            Timestamp::from_unix_millis(i64::MIN),
            Timestamp::from_unix_millis(i64::MAX),
        );
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(first - Duration::MAX, first);
        assert_eq!(last.since(first), Duration::from_millis(u64::MAX));
    }

    #[test]
    fn a_time_is_a_number_in_json() {
        let time = Timestamp::from_unix_millis(951_782_400_000);
        assert_eq!(serde_json::to_string(&time).unwrap(), "951782400000");
        assert_eq!(
            serde_json::from_str::<Timestamp>("951782400000").unwrap(),
            time
        );
    }

    #[test]
    fn a_time_converts_to_the_standard_library_and_back() {
        for millis in [-1_500, -1, 0, 1, 951_782_400_001] {
            let time = Timestamp::from_unix_millis(millis);
            assert_eq!(Timestamp::from(time.system_time()), time);
            let jiff = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(Timestamp::from(jiff), time);
        }
        let finer = UNIX_EPOCH + Duration::from_nanos(2_999_999);
        assert_eq!(Timestamp::from(finer).unix_millis(), 2);
    }
}
