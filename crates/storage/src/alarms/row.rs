//! The alarm as its object's database holds it: one row of `_abide_meta`, JSON text under the key `alarm`.

use super::{AlarmChange, AlarmEntry};
use crate::database::ObjectDb;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// An object's alarm. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmRow {
    /// When it was set to go off.
    pub scheduled: i64,
    /// When it was asked for, if its time had passed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<i64>,
    /// Attempts begun so far.
    #[serde(default)]
    pub attempts: u32,
    /// Attempts of the alarms before it, each of which was set in an attempt that its process did not survive. They
    /// lengthen the wait and count for nothing else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken: u32,
    /// When the attempt that has begun, or has failed, is tried again. An attempt is only run after this is durable, so
    /// one that its process does not survive counts and is not repeated at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// The alarm that was set while the attempt ran. It takes the place of this one when the attempt ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
    /// All attempts have failed. It goes off no more unless somebody runs it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// How the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl AlarmRow {
    /// An alarm that nothing has happened to yet.
    pub fn at(scheduled: i64) -> Self {
        Self {
            scheduled,
            ..Self::default()
        }
    }

    /// An alarm that is asked for at `now`.
    pub fn asked(scheduled: i64, now: i64) -> Self {
        Self {
            asked_at: (scheduled < now).then_some(now),
            ..Self::at(scheduled)
        }
    }

    /// The alarm to attempt now: the one that was set in an attempt that its process did not survive, or itself.
    #[must_use]
    pub fn to_attempt(self) -> Self {
        match self.next {
            Some(next) => Self {
                broken: self.broken.saturating_add(self.attempts),
                ..Self::at(next)
            },
            None => self,
        }
    }

    /// What the index is told of it.
    pub fn entry(&self) -> AlarmEntry {
        let due = match (self.next, self.retry_at) {
            _ if self.failed => self.scheduled,
            // An attempt that never ended does not hasten the alarm that it has set: it may have ended its process.
            (Some(next), Some(retry_at)) => next.max(retry_at),
            (next, retry_at) => next.or(retry_at).unwrap_or(self.scheduled),
        };
        AlarmEntry {
            due,
            attempts: u16::try_from(self.attempts).unwrap_or(u16::MAX),
            failed: self.failed,
        }
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ObjectDb {
    /// The object's alarm, as it stands in the current transaction.
    pub fn alarm(&self) -> Result<Option<AlarmRow>> {
        let text: Option<String> = self.internal_row(
            "SELECT value FROM _abide_meta WHERE key = 'alarm'/*abide*/",
            (),
            |row| row.get(0),
        )?;
        text.map(|text| {
            serde_json::from_str(&text).map_err(|error| {
                Error::damaged(format!("the object's alarm cannot be read: {error}"))
            })
        })
        .transpose()
    }

    /// Sets or removes the object's alarm, in the current transaction.
    pub fn set_alarm(&self, alarm: Option<&AlarmRow>) -> Result<()> {
        self.begin()?;
        self.touch_alarm();
        match alarm {
            None => self.internal("DELETE FROM _abide_meta WHERE key = 'alarm'/*abide*/", ()),
            Some(alarm) => {
                let text = serde_json::to_string(alarm)
                    .map_err(|error| Error::input(format!("encoding the alarm: {error}")))?;
                let sql = "INSERT INTO _abide_meta (key, value) VALUES ('alarm', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1/*abide*/";
                self.internal(sql, [text])
            }
        }
        .map(drop)
    }

    /// Commits the object's alarm again, whether it has changed or not: the index has come to say something else.
    pub fn repeat_alarm(&self) -> Result<()> {
        self.begin()?;
        self.touch_alarm();
        self.bookmark();
        Ok(())
    }

    /// What the transaction, if it has touched the alarm, makes of it.
    pub(crate) fn alarm_change(&self) -> Result<AlarmChange> {
        Ok(match self.alarm()? {
            Some(alarm) => AlarmChange::Set(alarm.entry()),
            None => AlarmChange::Cleared,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_due_when_it_was_set_for_or_at_its_retry() {
        let alarm = AlarmRow::at(50);
        assert_eq!(alarm.entry().due, 50);
        let begun = AlarmRow {
            attempts: 1,
            retry_at: Some(70),
            ..alarm
        };
        assert_eq!(begun.entry().due, 70);
    }

    #[test]
    fn an_attempt_that_never_ended_does_not_hasten_the_alarm_that_it_set() {
        let begun = |next| AlarmRow {
            attempts: 1,
            retry_at: Some(70),
            next: Some(next),
            ..AlarmRow::at(50)
        };
        assert_eq!(begun(10).entry().due, 70);
        assert_eq!(begun(90).entry().due, 90);
    }

    #[test]
    fn an_alarm_that_a_broken_attempt_has_set_counts_its_own_attempts_and_waits_longer() {
        let broken = AlarmRow {
            attempts: 7,
            retry_at: Some(70),
            next: Some(60),
            ..AlarmRow::at(50)
        };
        let alarm = broken.to_attempt();
        assert_eq!((alarm.scheduled, alarm.attempts, alarm.broken), (60, 0, 7));
        let again = AlarmRow {
            attempts: 1,
            next: Some(80),
            ..alarm
        };
        assert_eq!(again.to_attempt().broken, 8);
        assert_eq!(AlarmRow::at(50).to_attempt(), AlarmRow::at(50));
    }

    #[test]
    fn an_alarm_for_a_time_that_has_passed_knows_when_it_was_asked_for() {
        assert_eq!(AlarmRow::asked(50, 50), AlarmRow::at(50));
        let late = AlarmRow::asked(50, 80);
        assert_eq!((late.entry().due, late.asked_at), (50, Some(80)));
    }

    #[test]
    fn the_stored_form_of_an_alarm_is_short_and_stable() {
        let plain = serde_json::to_string(&AlarmRow::at(50)).unwrap();
        assert_eq!(plain, r#"{"scheduled":50,"attempts":0}"#);
        let failed = AlarmRow {
            attempts: 7,
            failed: true,
            error: Some("no".to_owned()),
            ..AlarmRow::at(50)
        };
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(
            text,
            r#"{"scheduled":50,"attempts":7,"failed":true,"error":"no"}"#
        );
        assert_eq!(serde_json::from_str::<AlarmRow>(&text).unwrap(), failed);
    }
}
