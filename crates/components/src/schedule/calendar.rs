//! The moments of a cron expression in a time zone.
//!
//! Contract: the cron library parses expressions and says which local times match. This module decides when a clock of
//! the zone shows them.
//!
//! - An expression that lists its hours means times of day. Each goes off at the first moment at which the clock has
//!   reached or passed it: a time that a forward jump skips, at the end of the jump; a time that occurs twice, the
//!   first time.
//! - An expression with `*` or `*/n` for its hours means a regular interval. It goes off whenever a clock shows a
//!   matching time: skipped times are skipped, and a time that occurs twice goes off twice.

use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds},
};
use jiff::{
    SignedDuration, Timestamp, Unit,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use super::limits;

/// No clock repeats or skips more than this at a time, and no two offsets are farther apart.
const LONGEST_JUMP: SignedDuration = SignedDuration::from_hours(48);

/// An expression in a time zone.
pub(super) struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

impl Calendar {
    pub(super) fn new(expression: &str, zone: &str) -> Result<Self, String> {
        if expression.len() > limits::MAX_CRON_BYTES {
            return Err(format!(
                "a cron expression has at most {} bytes",
                limits::MAX_CRON_BYTES
            ));
        }
        let cron = CronParser::builder()
            .seconds(Seconds::Optional)
            .build()
            .parse(expression)
            .map_err(|error| format!("cron expression `{expression}` cannot be read: {error}"))?;
        let known = Some(zone)
            .filter(|zone| zone.len() <= limits::MAX_ZONE_BYTES)
            .and_then(|zone| TimeZone::get(zone).ok());
        let Some(zone) = known else {
            return Err(format!(
                "time zone `{}` is unknown: use a name of the time zone database, such as `Europe/Berlin`",
                abide_component::texts::cut(zone.to_owned(), limits::MAX_ZONE_BYTES)
            ));
        };
        Ok(Self { cron, zone })
    }

    /// The first occurrence after a time. None if there is no other.
    pub(super) fn after(&self, time: i64) -> Result<Option<i64>, String> {
        let time = timestamp(time)?;
        let found = if self.is_rhythm() {
            self.shown_after(time)?
        } else {
            let local = self.local_after(self.reached(time)?)?;
            local.map(|local| self.reached_at(local)).transpose()?
        };
        Ok(found.map(Timestamp::as_millisecond))
    }

    /// The last occurrence from one time to another, both included.
    pub(super) fn last(&self, since: i64, until: i64) -> Result<Option<i64>, String> {
        let until = timestamp(until)?;
        let found = if self.is_rhythm() {
            self.shown_until(timestamp(since)?, until)?
        } else {
            let local = self.local_until(self.reached(until)?)?;
            local.map(|local| self.reached_at(local)).transpose()?
        };
        Ok(found
            .map(Timestamp::as_millisecond)
            .filter(|found| *found >= since))
    }

    /// True if the expression does not list its hours.
    fn is_rhythm(&self) -> bool {
        self.cron.pattern.hours.from_wildcard
    }

    /// The latest local time that the clock has shown or passed, in whole seconds.
    fn reached(&self, time: Timestamp) -> Result<DateTime, String> {
        let shown = whole_seconds(self.zone.to_datetime(time))?;
        let Some(change) = self.last_change(time)? else {
            return Ok(shown);
        };
        let before = change - SignedDuration::from_secs(1);
        Ok(shown.max(self.zone.to_datetime(before)))
    }

    /// The first moment at which the clock has reached or passed a local time.
    fn reached_at(&self, local: DateTime) -> Result<Timestamp, String> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => moment(offset, local),
            AmbiguousOffset::Fold { before, .. } => moment(before, local),
            AmbiguousOffset::Gap { after, .. } => {
                let earlier = moment(after, local)?;
                let change = self.zone.following(earlier).next();
                change
                    .map(|change| change.timestamp())
                    .ok_or_else(|| format!("{local} is skipped, and no clock passes it"))
            }
        }
    }

    /// The first moment after a time at which the clock shows a match.
    fn shown_after(&self, time: Timestamp) -> Result<Option<Timestamp>, String> {
        let first = timestamp_after(time)?;
        let mut from = time;
        loop {
            let offset = self.zone.to_offset(from);
            let local = offset.to_datetime(from);
            let local = if from < first {
                self.local_after(whole_seconds(local)?)?
            } else {
                self.local_from(local)?
            };
            let found = local.map(|local| moment(offset, local)).transpose()?;
            let Some(change) = self.zone.following(from).next() else {
                return Ok(found);
            };
            let change = change.timestamp();
            let is_far = change.duration_since(from) > LONGEST_JUMP;
            from = match found {
                Some(found) if found < change => return Ok(Some(found)),
                None if is_far => return Ok(None),
                // No clock shows it earlier, so there are no offset changes in between.
                Some(found) if is_far => change.max(found - LONGEST_JUMP),
                _ => change,
            };
        }
    }

    /// The last moment from one time to another at which the clock shows a match.
    fn shown_until(
        &self,
        since: Timestamp,
        mut until: Timestamp,
    ) -> Result<Option<Timestamp>, String> {
        while until >= since {
            let offset = self.zone.to_offset(until);
            let local = self.local_until(whole_seconds(offset.to_datetime(until))?)?;
            let found = local.map(|local| moment(offset, local)).transpose()?;
            let Some(change) = self.last_change(until)? else {
                return Ok(found);
            };
            if found.is_some_and(|found| found >= change) {
                return Ok(found);
            }
            until = change - SignedDuration::from_secs(1);
        }
        Ok(None)
    }

    /// When the zone's offset changed last, up to a time.
    fn last_change(&self, time: Timestamp) -> Result<Option<Timestamp>, String> {
        let change = self.zone.preceding(timestamp_after(time)?).next();
        Ok(change.map(|change| change.timestamp()))
    }

    fn local_after(&self, local: DateTime) -> Result<Option<DateTime>, String> {
        self.find(local, |cron, at| cron.find_next_occurrence(at, false))
    }

    fn local_from(&self, local: DateTime) -> Result<Option<DateTime>, String> {
        self.find(local, |cron, at| cron.find_next_occurrence(at, true))
    }

    fn local_until(&self, local: DateTime) -> Result<Option<DateTime>, String> {
        self.find(local, |cron, at| cron.find_previous_occurrence(at, true))
    }

    /// Queries the library with local times, on a clock that never jumps.
    fn find(
        &self,
        local: DateTime,
        ask: impl FnOnce(&Cron, &jiff::Zoned) -> Result<jiff::Zoned, CronError>,
    ) -> Result<Option<DateTime>, String> {
        let at = local.to_zoned(TimeZone::UTC).map_err(text)?;
        match ask(&self.cron, &at) {
            Ok(found) => Ok(Some(found.datetime())),
            Err(CronError::TimeSearchLimitExceeded) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn timestamp(millis: i64) -> Result<Timestamp, String> {
    Timestamp::from_millisecond(millis).map_err(text)
}

/// The next moment that there is.
fn timestamp_after(time: Timestamp) -> Result<Timestamp, String> {
    let next = time.checked_add(SignedDuration::from_nanos(1));
    next.map_err(text)
}

fn moment(offset: Offset, local: DateTime) -> Result<Timestamp, String> {
    offset.to_timestamp(local).map_err(text)
}

fn whole_seconds(local: DateTime) -> Result<DateTime, String> {
    let rounding = jiff::civil::DateTimeRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Trunc);
    local.round(rounding).map_err(text)
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` has it")]
fn text(error: jiff::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
