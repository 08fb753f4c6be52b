//! Operations of the object's own code on its alarms.
//!
//! While an attempt to handle an alarm runs, the alarm in its row is that of the attempt. An alarm that is set or
//! deleted in the meantime is the row's `next`. The same holds if the row records an attempt that its process did not
//! survive: setting the alarm again does not bring forward what may have crashed the process.
//!
//! Alarms are named as in the database: the unnamed alarm has the empty name.

use std::rc::Rc;

use abide_storage::{AlarmRow, BegunAttempt, Isolation, ObjectDb};

use super::{Confirmation, Object};
use crate::{
    AlarmInfo, Error, ErrorKind, LocalFuture, Reply, Result, Timestamp, alarms::ScheduledTime,
};

/// Handles an alarm in place of the object's class.
pub(crate) type AlarmHandler = Rc<dyn Fn(AlarmInfo) -> LocalFuture<Result<()>>>;

impl Object {
    /// Sets the handler of the alarm with this name, for the lifetime of this incarnation.
    pub(crate) fn on_alarm(&self, name: &str, handler: AlarmHandler) -> Result<()> {
        let mut handlers = self.alarm_handlers.borrow_mut();
        if handlers.contains_key(name) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!("the alarm `{name}` already has a handler: each name can have only one"),
            ));
        }
        handlers.insert(name.into(), handler);
        Ok(())
    }

    /// The handler of the firing alarm, if it has its own.
    pub(super) fn handle_alarm(&self) -> Option<LocalFuture<Result<Reply>>> {
        // A component may have taken the alarm over since the attempt began.
        let info = self.current_alarm()?;
        let handler = Rc::clone(self.alarm_handlers.borrow().get(info.stored_name())?);
        // Called when it is polled: the alarm counts as being handled by then.
        Some(Box::pin(async move {
            handler(info).await.map(|()| Reply::Done)
        }))
    }

    pub(crate) fn set_alarm(
        &self,
        name: &str,
        at: ScheduledTime,
        max_backoff: Option<u32>,
    ) -> Result<()> {
        let now = self.worker.clock_time();
        let (at, wait) = (at.resolve(now.unix_millis)?, at.is_wait());
        let row = match self.running_alarm(name)? {
            Some(row) => Some(row),
            None => self.cut_off_alarm(name)?,
        };
        let mut row = match row {
            Some(row) => AlarmRow {
                next: Some(at),
                next_wait: wait,
                next_set_back: now.set_back,
                ..row
            },
            None => AlarmRow::set(at, wait, now),
        };
        row.max_backoff = max_backoff;
        self.write_alarm(name, Some(&row))
    }

    pub(crate) fn get_alarm(&self, name: &str) -> Result<Option<Timestamp>> {
        let row = self.read(|db| db.named_alarm(name))?;
        Ok(row.and_then(|row| self.time_of(name, &row)))
    }

    /// The pending named alarms.
    pub(crate) fn named_alarms(&self) -> Result<Vec<(String, Timestamp)>> {
        let rows = self.read(ObjectDb::alarms)?.into_iter();
        let times = rows.filter_map(|(name, row)| {
            let time = self.time_of(&name, &row)?;
            (!name.is_empty()).then(|| (name.into(), time))
        });
        Ok(times.collect())
    }

    /// The time of an alarm as its object's code sees it, by the present clock.
    fn time_of(&self, name: &str, row: &AlarmRow) -> Option<Timestamp> {
        let set_back = self.worker.clock_time().set_back;
        let next = row.next_at(set_back);
        let time = if row.failed {
            None
        } else if self.handling.get() && self.runs_alarm(name) {
            next
        } else {
            next.or(Some(row.scheduled_at(set_back)))
        };
        time.map(Timestamp::from_unix_millis)
    }

    /// While an attempt runs, only the alarm that was set in the meantime is removed: the running one is removed when
    /// the attempt succeeds.
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
        self.tell_deleted();
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

    /// The row, if an attempt of it is running.
    pub(super) fn running_alarm(&self, name: &str) -> Result<Option<AlarmRow>> {
        if !self.runs_alarm(name) {
            return Ok(None);
        }
        let Some(attempt) = self.current_alarm() else {
            return Ok(None);
        };
        let row = self.read(|db| db.named_alarm(name))?;
        if row.is_some() {
            return Ok(row);
        }
        Ok(Some(AlarmRow {
            attempts: attempt.retry_count.saturating_add(1),
            begun: Some(BegunAttempt {
                epoch: self.generation()?,
                isolation: Isolation::Free,
            }),
            ..AlarmRow::at(attempt.scheduled_time.unix_millis())
        }))
    }

    /// The row, if it records an attempt that its process did not survive.
    fn cut_off_alarm(&self, name: &str) -> Result<Option<AlarmRow>> {
        let row = self.read(|db| db.named_alarm(name))?;
        let generation = self.generation()?;
        Ok(row.filter(|row| row.was_cut_off(generation)))
    }

    /// The generation of the object's shard.
    pub(super) fn generation(&self) -> Result<u32> {
        self.read(|db| Ok(db.generation()))
    }

    pub(super) fn write_alarm(&self, name: &str, row: Option<&AlarmRow>) -> Result<()> {
        self.write(Confirmation::Confirmed, |db| db.set_named_alarm(name, row))
    }
}

fn without_next(row: AlarmRow) -> AlarmRow {
    AlarmRow {
        next: None,
        next_wait: false,
        next_set_back: 0,
        ..row
    }
}
