//! What the object's own code does to its alarms.
//!
//! While an attempt to handle an alarm runs, the alarm that its row tells of is the attempt's. What is set or deleted
//! meanwhile is the row's `next`. So it is if the row tells of an attempt that its process did not survive: whoever sets the
//! alarm anew does not hasten what may have ended the process.
//!
//! Alarms are named as in the database: the object's own has the empty name.

use std::rc::Rc;

use abide_storage::{AlarmRow, BegunAttempt, Isolation, ObjectDb};

use super::{Confirmation, Object};
use crate::{
    AlarmInfo, AlarmTime, Error, ErrorKind, LocalFuture, Reply, Result, alarms::ScheduledTime,
    limits::ALARM_HANDLER_MAX_BACKOFF,
};

/// Handles an alarm in the place of the object's class.
pub(crate) type AlarmHandler = Rc<dyn Fn(AlarmInfo) -> LocalFuture<Result<()>>>;

impl Object {
    /// Has the alarm of this name handled, for as long as this incarnation lives.
    pub(crate) fn on_alarm(&self, name: &str, handler: AlarmHandler) -> Result<()> {
        let mut handlers = self.alarm_handlers.borrow_mut();
        if handlers.contains_key(name) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!("the alarm `{name}` has a handler already: each name has one"),
            ));
        }
        handlers.insert(name.into(), handler);
        Ok(())
    }

    /// The handler of an alarm, if it has one of its own.
    pub(super) fn handle_alarm(&self, info: &AlarmInfo) -> Option<LocalFuture<Result<Reply>>> {
        let handler = Rc::clone(self.alarm_handlers.borrow().get(info.stored_name())?);
        let handled = handler(info.clone());
        Some(Box::pin(async move { handled.await.map(|()| Reply::Done) }))
    }

    pub(crate) fn set_alarm(&self, name: &str, at: ScheduledTime) -> Result<()> {
        let now = self.worker.unix_millis();
        let (at, wait) = (at.resolve(now)?, at.is_wait());
        let row = match self.running_alarm(name)? {
            Some(row) => Some(row),
            None => self.cut_off_alarm(name)?,
        };
        let mut row = match row {
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
        let has_handler = self.alarm_handlers.borrow().contains_key(name);
        row.max_backoff = has_handler.then_some(ALARM_HANDLER_MAX_BACKOFF.as_millis() as u32);
        self.write_alarm(name, Some(&row))
    }

    pub(crate) fn get_alarm(&self, name: &str) -> Result<Option<AlarmTime>> {
        let row = self.read(|db| db.named_alarm(name))?;
        Ok(row.and_then(|row| self.time_of(name, &row)))
    }

    /// The pending alarms that have names.
    pub(crate) fn named_alarms(&self) -> Result<Vec<(String, AlarmTime)>> {
        let rows = self.read(ObjectDb::alarms)?.into_iter();
        let times = rows.filter_map(|(name, row)| {
            let time = self.time_of(&name, &row)?;
            (!name.is_empty()).then(|| (name.into(), time))
        });
        Ok(times.collect())
    }

    /// When an alarm goes off, as whoever sets it sees it.
    fn time_of(&self, name: &str, row: &AlarmRow) -> Option<AlarmTime> {
        let time = if row.failed {
            None
        } else if self.handling.get() && self.runs_alarm(name) {
            row.next
        } else {
            row.next.or(Some(row.scheduled))
        };
        time.map(AlarmTime::from_unix_millis)
    }

    /// While an attempt runs only the alarm that was set meanwhile is taken back: the one that runs is gone when the
    /// attempt succeeds.
    pub(crate) fn delete_alarm(&self, name: &str) -> Result<()> {
        let row = self.running_alarm(name)?;
        self.write_alarm(name, row.map(without_next).as_ref())
    }

    pub(crate) fn delete_all(&self) -> Result<()> {
        let running = match self.current_alarm() {
            Some(attempt) => self
                .running_alarm(attempt.stored_name())?
                .map(|row| (attempt, row)),
            None => None,
        };
        self.write(Confirmation::Confirmed, ObjectDb::delete_all)?;
        match running {
            Some((attempt, row)) => {
                self.write_alarm(attempt.stored_name(), Some(&without_next(row)))
            }
            None => Ok(()),
        }
    }

    /// The attempt that runs, if one does.
    pub(crate) fn current_alarm(&self) -> Option<AlarmInfo> {
        self.attempt.borrow().clone()
    }

    fn runs_alarm(&self, name: &str) -> bool {
        let attempt = self.attempt.borrow();
        attempt
            .as_ref()
            .is_some_and(|attempt| attempt.stored_name() == name)
    }

    /// The row, if an attempt of it runs.
    pub(super) fn running_alarm(&self, name: &str) -> Result<Option<AlarmRow>> {
        if !self.runs_alarm(name) {
            return Ok(None);
        }
        let Some(attempt) = self.current_alarm() else {
            return Ok(None);
        };
        let row = self.read(|db| db.named_alarm(name))?;
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
    fn cut_off_alarm(&self, name: &str) -> Result<Option<AlarmRow>> {
        let row = self.read(|db| db.named_alarm(name))?;
        let epoch = self.worker.store.epoch();
        Ok(row.filter(|row| row.was_cut_off(epoch)))
    }

    pub(super) fn write_alarm(&self, name: &str, row: Option<&AlarmRow>) -> Result<()> {
        self.write(Confirmation::Confirmed, |db| db.set_named_alarm(name, row))
    }
}

fn without_next(row: AlarmRow) -> AlarmRow {
    AlarmRow {
        next: None,
        next_wait: false,
        ..row
    }
}
