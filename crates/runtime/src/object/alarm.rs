//! What the object's own code does to its alarm.
//!
//! While an attempt to handle the alarm runs, the alarm that its row tells of is the attempt's. What is set or deleted
//! meanwhile is the row's `next`. So it is if the row tells of an attempt that its process did not survive: whoever sets the
//! alarm anew does not hasten what may have ended the process.

use abide_storage::{AlarmRow, BegunAttempt, Isolation, ObjectDb};

use super::{Confirmation, Object};
use crate::{AlarmInfo, AlarmTime, Result, alarms::ScheduledTime};

impl Object {
    pub(crate) fn set_alarm(&self, at: ScheduledTime) -> Result<()> {
        let now = self.worker.unix_millis();
        let (at, wait) = (at.resolve(now)?, at.is_wait());
        let row = match self.running_alarm()? {
            Some(row) => Some(row),
            None => self.cut_off_alarm()?,
        };
        let row = match row {
            Some(row) => AlarmRow {
                next: Some(at),
                next_wait: wait,
                ..row
            },
            None => AlarmRow {
                wait,
                ..AlarmRow::asked(at, now)
            },
        };
        self.write_alarm(Some(&row))
    }

    pub(crate) fn get_alarm(&self) -> Result<Option<AlarmTime>> {
        let row = self.read(ObjectDb::alarm)?;
        let time = row.filter(|row| !row.failed).and_then(|row| {
            if self.handling.get() {
                row.next
            } else {
                row.next.or(Some(row.scheduled))
            }
        });
        Ok(time.map(AlarmTime::from_unix_millis))
    }

    /// While an attempt runs only the alarm that was set meanwhile is taken back: the one that runs is gone when the
    /// attempt succeeds.
    pub(crate) fn delete_alarm(&self) -> Result<()> {
        let row = self.running_alarm()?;
        self.write_alarm(row.map(without_next).as_ref())
    }

    pub(crate) fn delete_all(&self) -> Result<()> {
        let running = self.running_alarm()?;
        self.write(Confirmation::Confirmed, ObjectDb::delete_all)?;
        match running {
            Some(row) => self.write_alarm(Some(&without_next(row))),
            None => Ok(()),
        }
    }

    /// The attempt that runs, if one does.
    pub(crate) fn current_alarm(&self) -> Option<AlarmInfo> {
        self.attempt.get()
    }

    /// The row, if an attempt runs.
    pub(super) fn running_alarm(&self) -> Result<Option<AlarmRow>> {
        let Some(attempt) = self.attempt.get() else {
            return Ok(None);
        };
        let row = self.read(ObjectDb::alarm)?;
        Ok(Some(row.unwrap_or_else(|| AlarmRow {
            attempts: attempt.retry_count.saturating_add(1),
            begun: Some(BegunAttempt {
                epoch: self.worker.store.epoch(),
                isolation: Isolation::Free,
            }),
            ..AlarmRow::at(attempt.scheduled_time.unix_millis())
        })))
    }

    /// The row, if it tells of an attempt that its process did not survive.
    fn cut_off_alarm(&self) -> Result<Option<AlarmRow>> {
        let row = self.read(ObjectDb::alarm)?;
        let epoch = self.worker.store.epoch();
        Ok(row.filter(|row| row.was_cut_off(epoch)))
    }

    pub(super) fn write_alarm(&self, row: Option<&AlarmRow>) -> Result<()> {
        self.write(Confirmation::Confirmed, |db| db.set_alarm(row))
    }
}

fn without_next(row: AlarmRow) -> AlarmRow {
    AlarmRow {
        next: None,
        next_wait: false,
        ..row
    }
}
