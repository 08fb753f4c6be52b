//! When an alarm shall fire.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, ErrorKind, Result, Timestamp, limits::MAX_ALARM_UNIX_MILLIS};

/// When an alarm shall fire, in any of the forms that [`Storage::set_alarm`](crate::Storage::set_alarm) accepts: a
/// [`Timestamp`], a [`SystemTime`], a [`jiff::Timestamp`], a [`Duration`] from now, or an `i64` of milliseconds since 1970.
///
/// Times are absolute, by the wall clock. A [`Duration`] is a wait: it does not get longer if the wall clock is set
/// back in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledTime(Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    At(i64),
    In(Duration),
    WaitUntil(i64),
}

impl ScheduledTime {
    /// A wait that ends when the wall clock shows this time, in milliseconds since 1970. If the clock is set back in
    /// the meantime, the wait is not extended.
    pub const fn wait_until(unix_millis: i64) -> Self {
        Self(Form::WaitUntil(unix_millis))
    }

    /// Returns whether this is a wait rather than a time of the wall clock.
    pub(crate) fn is_wait(self) -> bool {
        !matches!(self.0, Form::At(_))
    }

    /// The time in milliseconds since 1970, if it is now `now`. Rejects invalid times.
    pub(crate) fn resolve(self, now: i64) -> Result<i64> {
        let millis = match self.0 {
            Form::At(millis) | Form::WaitUntil(millis) => Some(millis),
            // Never earlier than requested.
            Form::In(wait) => i64::try_from(wait.as_nanos().div_ceil(1_000_000))
                .ok()
                .and_then(|wait| now.checked_add(wait)),
        };
        match millis {
            Some(millis) if millis <= 0 => Err(refused(format!(
                "an alarm cannot be set to {millis} ms after 1970: the time must be after 1970"
            ))),
            Some(millis) if millis <= MAX_ALARM_UNIX_MILLIS => Ok(millis),
            _ => Err(refused(
                "an alarm cannot be set to a time after the year 9999: times are in milliseconds, not in a smaller unit"
                    .to_owned(),
            )),
        }
    }
}

fn refused(message: String) -> Error {
    Error::with_kind(ErrorKind::Input, message)
}

impl From<Timestamp> for ScheduledTime {
    fn from(time: Timestamp) -> Self {
        Self(Form::At(time.unix_millis()))
    }
}

impl From<SystemTime> for ScheduledTime {
    /// Rounds up to a whole millisecond.
    fn from(time: SystemTime) -> Self {
        let millis = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX),
            Err(_) => 0,
        };
        Self(Form::At(millis))
    }
}

impl From<jiff::Timestamp> for ScheduledTime {
    /// Rounds up to a whole millisecond.
    fn from(time: jiff::Timestamp) -> Self {
        Self(Form::At(
            i64::try_from((time.as_nanosecond() + 999_999).div_euclid(1_000_000))
                .unwrap_or(i64::MAX),
        ))
    }
}

impl From<Duration> for ScheduledTime {
    fn from(wait: Duration) -> Self {
        Self(Form::In(wait))
    }
}

impl From<i64> for ScheduledTime {
    /// Milliseconds since 1970, like JavaScript's `Date.now()`.
    fn from(millis: i64) -> Self {
        Self(Form::At(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(time: impl Into<ScheduledTime>) -> Result<i64> {
        time.into().resolve(1_000)
    }

    #[test]
    fn every_form_of_a_time_comes_to_whole_milliseconds_that_are_not_early() {
        assert_eq!(resolve(5).unwrap(), 5);
        assert_eq!(resolve(Timestamp::from_unix_millis(6)).unwrap(), 6);
        assert_eq!(resolve(Duration::from_micros(1_500)).unwrap(), 1_002);
        assert_eq!(resolve(Duration::ZERO).unwrap(), 1_000);
        let time = UNIX_EPOCH + Duration::from_nanos(2_000_001);
        assert_eq!(resolve(time).unwrap(), 3);
        let time = jiff::Timestamp::from_nanosecond(2_000_001).unwrap();
        assert_eq!(resolve(time).unwrap(), 3);
        let time = Timestamp::from_unix_millis(7);
        assert_eq!(resolve(time.system_time()).unwrap(), 7);
    }

    #[test]
    fn times_that_cannot_be_meant_are_refused() {
        for early in [ScheduledTime::from(0), (-1).into(), UNIX_EPOCH.into()] {
            let error = resolve(early).unwrap_err();
            assert!(error.message().contains("after 1970"), "{error}");
        }
        let micros = 1_767_225_600_000_000;
        for late in [ScheduledTime::from(micros), Duration::MAX.into()] {
            let error = resolve(late).unwrap_err();
            assert!(error.message().contains("year 9999"), "{error}");
        }
    }
}
